//! A channel for one value, between tasks of any threads.

/// Creates a channel for one value.
pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    (Sender(sender), Receiver(receiver))
}

/// Sends the value of a channel.
#[derive(Debug)]
pub(crate) struct Sender<T>(tokio::sync::oneshot::Sender<T>);

/// Receives the value of a channel.
#[derive(Debug)]
pub struct Receiver<T>(tokio::sync::oneshot::Receiver<T>);

impl<T> Sender<T> {
    /// Returns true if the receiving end was dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Sends the value; if the receiving end was dropped, so is the value.
    pub(crate) fn send(self, value: T) {
        drop(self.0.send(value));
    }

    /// Sends the value; gives it back if the receiving end was dropped.
    pub(crate) fn try_send(self, value: T) -> Result<(), T> {
        self.0.send(value)
    }
}

impl<T> Receiver<T> {
    /// Waits for the value; `None` if the sending end was dropped.
    pub async fn recv(self) -> Option<T> {
        self.0.await.ok()
    }
}
