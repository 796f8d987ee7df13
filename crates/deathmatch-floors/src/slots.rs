//! Values by number. The number of a removed value is used again.

/// A table of values, of which each has a number.
#[derive(Debug)]
pub struct Slots<T> {
    all: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Stores a value; returns its number.
    pub fn insert(&mut self, value: T) -> u32 {
        let slot = self.free.pop().unwrap_or(self.all.len() as u32);
        match self.all.get_mut(slot as usize) {
            Some(place) => *place = Some(value),
            None => self.all.push(Some(value)),
        }
        slot
    }

    /// The value of this number.
    pub fn at(&mut self, slot: u32) -> Option<&mut T> {
        self.all.get_mut(slot as usize)?.as_mut()
    }

    /// Drops the value of this number, if there is one.
    pub fn remove(&mut self, slot: u32) {
        if let Some(place) = self.all.get_mut(slot as usize)
            && place.take().is_some()
        {
            self.free.push(slot);
        }
    }

    /// `true` if there are no values.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.all.len()
    }
}
