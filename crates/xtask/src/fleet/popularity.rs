//! Which object a request is for: Zipf's law, sampled by the alias method (Vose, 1991).

use super::random::Random;

/// A distribution over objects: the object of rank r has a weight of 1 / r^skew.
pub(super) struct Popularity {
    /// For each object: the probability of staying there, and the object to go to otherwise.
    slots: Vec<(f64, u32)>,
}

impl Popularity {
    pub(super) fn new(objects: usize, skew: f64) -> Popularity {
        let weights: Vec<f64> = (1..=objects).map(|rank| (rank as f64).powf(-skew)).collect();
        let mean = weights.iter().sum::<f64>() / objects as f64;
        let mut slots: Vec<(f64, u32)> =
            weights.iter().enumerate().map(|(object, w)| (w / mean, object as u32)).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..objects as u32).partition(|&object| slots[object as usize].0 < 1.0);
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            slots[poor as usize].1 = rich;
            slots[rich as usize].0 -= 1.0 - slots[poor as usize].0;
            if slots[rich as usize].0 < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        // Only rounding is left.
        small.into_iter().chain(large).for_each(|object| slots[object as usize].0 = 1.0);
        Popularity { slots }
    }

    /// The object of the next request.
    pub(super) fn next(&self, random: &mut Random) -> u32 {
        let object = random.below(self.slots.len());
        let (stay, other) = self.slots[object];
        if random.unit() < stay { object as u32 } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_shares_of_zipfs_law() {
        let popularity = Popularity::new(1_000, 1.0);
        let mut random = Random::new(7);
        let mut counts = vec![0_u32; 1_000];
        for _ in 0..200_000 {
            counts[popularity.next(&mut random) as usize] += 1;
        }
        // The sum of 1 / r up to 1,000 is 7.485.
        for (rank, count) in [(1, counts[0]), (2, counts[1]), (10, counts[9])] {
            let expected = 200_000.0 / f64::from(rank) / 7.485;
            assert!((f64::from(count) / expected - 1.0).abs() < 0.1, "rank {rank}: {count}");
        }
    }
}
