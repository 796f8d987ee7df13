//! The network between the generator and a server, where it is not loopback.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Loss and delay of a network, alike in both directions. Its rate is not limited.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Share of packets that are lost, each independently of the others (0 to 1).
    pub loss: f64,
    /// Delay of each packet, in milliseconds; a round trip takes twice that.
    pub delay_ms: u32,
}

/// As in `3 % loss, 100 ms each way`.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = (self.loss * 1e5).round() / 1e3;
        write!(f, "{percent} % loss, {} ms each way", self.delay_ms)
    }
}

/// A network during a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkUse {
    /// Its loss and delay.
    pub network: Network,
    /// TCP's congestion control at the server.
    pub congestion: String,
    /// Packets sent into it, in both directions.
    pub packets: u64,
    /// Those of them that were lost.
    pub lost: u64,
}
