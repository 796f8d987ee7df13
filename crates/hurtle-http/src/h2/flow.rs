//! Flow-control windows (RFC 9113 section 5.2).

use super::frame::Reason;

/// Maximum of a window (RFC 9113 section 6.9.1), in bytes.
pub(super) const WINDOW_BYTES_MAX: u32 = 0x7fff_ffff;

/// Initial window without a setting (section 6.9.2), in bytes.
pub(super) const WINDOW_BYTES_DEFAULT: u32 = 65_535;

/// A window for sending. It may be negative (section 6.9.2).
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

    /// Subtracts sent bytes, at most `bytes()`.
    pub(super) fn take(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(i32::try_from(bytes).unwrap_or(i32::MAX));
    }

    /// Enlarges the window, or shrinks it after a setting.
    ///
    /// # Errors
    /// The window would exceed `WINDOW_BYTES_MAX`.
    pub(super) fn change(&mut self, by: i64) -> Result<(), Reason> {
        let changed = i64::from(self.0) + by;
        self.0 = i32::try_from(changed).map_err(|_| Reason::FLOW_CONTROL_ERROR)?;
        Ok(())
    }
}

/// A window for receiving.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveWindow {
    /// Bytes the peer may send.
    open: u32,
    /// Received bytes that are not freed.
    held: u32,
    /// Freed bytes that no WINDOW_UPDATE has announced.
    freed: u32,
}

impl ReceiveWindow {
    pub(super) fn new(bytes: u32) -> ReceiveWindow {
        ReceiveWindow { open: bytes, held: 0, freed: 0 }
    }

    /// Adds received bytes.
    ///
    /// # Errors
    /// FLOW_CONTROL_ERROR: the peer exceeded the window.
    pub(super) fn take(&mut self, bytes: u32) -> Result<(), Reason> {
        self.open = self.open.checked_sub(bytes).ok_or(Reason::FLOW_CONTROL_ERROR)?;
        self.held += bytes;
        Ok(())
    }

    /// Enlarges the window by bytes that were announced.
    pub(super) fn raise(&mut self, bytes: u32) {
        self.open += bytes;
    }

    /// Received bytes that are not freed.
    pub(super) fn held(&self) -> u32 {
        self.held
    }

    /// Frees at most `bytes`; returns the number of freed bytes.
    pub(super) fn free(&mut self, bytes: u32) -> u32 {
        let freed = bytes.min(self.held);
        self.held -= freed;
        self.freed += freed;
        freed
    }

    /// The increment for a WINDOW_UPDATE, once half the window is free.
    pub(super) fn increment(&mut self) -> Option<u32> {
        let size = u64::from(self.open) + u64::from(self.held) + u64::from(self.freed);
        if self.freed == 0 || u64::from(self.freed) * 2 < size {
            return None;
        }
        Some(self.reopen())
    }

    /// As [`increment`](Self::increment), once half of what is not held is free: one stream may
    /// hold bytes for long, and must not keep the others from using the rest.
    pub(super) fn shared_increment(&mut self) -> Option<u32> {
        if self.freed == 0 || self.freed < self.open {
            return None;
        }
        Some(self.reopen())
    }

    fn reopen(&mut self) -> u32 {
        let increment = self.freed;
        self.freed = 0;
        self.open += increment;
        increment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_window_opens_byte_by_byte() {
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
    fn the_peer_gets_an_update_when_half_is_free() {
        let mut window = ReceiveWindow::new(100);
        assert_eq!(window.take(101), Err(Reason::FLOW_CONTROL_ERROR));
        assert_eq!(window.take(100), Ok(()));
        assert_eq!((window.free(49), window.increment()), (49, None));
        assert_eq!((window.free(1), window.increment()), (1, Some(50)));
        assert_eq!((window.free(60), window.increment()), (50, Some(50)));
        assert_eq!(window.held(), 0);
    }

    /// Regression: a window of which streams held more than half never opened again.
    #[test]
    fn the_rest_of_a_shared_window_circulates() {
        let mut window = ReceiveWindow::new(100);
        assert_eq!(window.take(75), Ok(()));
        for _ in 0..10 {
            assert_eq!(window.take(13), Ok(()));
            assert_eq!((window.free(13), window.shared_increment()), (13, Some(13)));
            assert_eq!(window.take(10), Ok(()));
            assert_eq!((window.free(10), window.shared_increment()), (10, None));
            assert_eq!(window.take(5), Ok(()));
            assert_eq!((window.free(5), window.shared_increment()), (5, Some(15)));
        }
        assert_eq!(window.held(), 75);
    }
}
