//! Flow control (RFC 9113 section 5.2): windows as numbers.

use super::frame::Reason;

/// A window's bound (RFC 9113 section 6.9.1), in bytes.
pub(super) const WINDOW_BYTES_MAX: u32 = 0x7fff_ffff;

/// A window before anything is agreed (section 6.9.2), in bytes.
pub(super) const WINDOW_BYTES_DEFAULT: u32 = 65_535;

/// Bytes that may be sent; the number may be negative (section 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendWindow(i32);

impl SendWindow {
    pub(super) fn new(bytes: u32) -> SendWindow {
        SendWindow(i32::try_from(bytes).unwrap_or(i32::MAX))
    }

    /// Bytes that may be sent.
    pub(super) fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Takes bytes that are sent: no more than `bytes` says.
    pub(super) fn take(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(i32::try_from(bytes).unwrap_or(i32::MAX));
    }

    /// Opens or, by a setting, shuts the window.
    ///
    /// # Errors
    /// It would be larger than any may be.
    pub(super) fn change(&mut self, by: i64) -> Result<(), Reason> {
        let changed = i64::from(self.0) + by;
        self.0 = i32::try_from(changed).map_err(|_| Reason::FLOW_CONTROL_ERROR)?;
        Ok(())
    }
}

/// Bytes that the peer may send, and bytes that are held.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveWindow {
    /// Bytes the peer may send.
    open: u32,
    /// Bytes that were received and are held.
    held: u32,
    /// Bytes that are free again, and the peer was not told.
    freed: u32,
}

impl ReceiveWindow {
    pub(super) fn new(bytes: u32) -> ReceiveWindow {
        ReceiveWindow { open: bytes, held: 0, freed: 0 }
    }

    /// Takes received bytes.
    ///
    /// # Errors
    /// The peer may not send so many.
    pub(super) fn take(&mut self, bytes: u32) -> Result<(), Reason> {
        self.open = self.open.checked_sub(bytes).ok_or(Reason::FLOW_CONTROL_ERROR)?;
        self.held += bytes;
        Ok(())
    }

    /// Bytes that are held.
    pub(super) fn held(&self) -> u32 {
        self.held
    }

    /// Frees bytes; how many were held of them.
    pub(super) fn free(&mut self, bytes: u32) -> u32 {
        let freed = bytes.min(self.held);
        self.held -= freed;
        self.freed += freed;
        freed
    }

    /// The increment to tell the peer of, once half the window is free.
    pub(super) fn increment(&mut self) -> Option<u32> {
        let size = u64::from(self.open) + u64::from(self.held) + u64::from(self.freed);
        if self.freed == 0 || u64::from(self.freed) * 2 < size {
            return None;
        }
        let increment = self.freed;
        self.freed = 0;
        self.open += increment;
        Some(increment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_less_than_nothing_opens_byte_by_byte() {
        let mut window = SendWindow::new(3);
        window.take(3);
        assert_eq!((window.change(-2), window.bytes()), (Ok(()), 0));
        assert_eq!((window.change(2), window.bytes()), (Ok(()), 0));
        assert_eq!((window.change(1), window.bytes()), (Ok(()), 1));
        let beyond = i64::from(WINDOW_BYTES_MAX);
        assert_eq!(window.change(beyond), Err(Reason::FLOW_CONTROL_ERROR));
        assert_eq!(window.bytes(), 1);
    }

    #[test]
    fn the_peer_is_told_when_half_is_free() {
        let mut window = ReceiveWindow::new(100);
        assert_eq!(window.take(101), Err(Reason::FLOW_CONTROL_ERROR));
        assert_eq!(window.take(100), Ok(()));
        assert_eq!((window.free(49), window.increment()), (49, None));
        assert_eq!((window.free(1), window.increment()), (1, Some(50)));
        assert_eq!((window.free(60), window.increment()), (50, Some(50)));
        assert_eq!(window.held(), 0);
    }
}
