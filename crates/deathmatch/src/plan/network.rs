//! A plan's key on the network between the generator and the servers.

use serde::Deserialize;

use crate::sample::Network;

/// Largest share of lost packets; beyond it few connections are established.
const LOSS_MAX: f64 = 0.5;

/// Longest delay, in milliseconds.
const DELAY_MS_MAX: u32 = 2_000;

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkToml {
    #[serde(default)]
    loss: f64,
    delay_ms: u32,
}

impl NetworkToml {
    pub(super) fn check(self) -> Result<Network, String> {
        let NetworkToml { loss, delay_ms } = self;
        if !(0.0..=LOSS_MAX).contains(&loss) {
            return Err(format!("network: loss: write 0 to {LOSS_MAX}"));
        }
        if delay_ms > DELAY_MS_MAX {
            return Err(format!("network: delay_ms: write 0 to {DELAY_MS_MAX}"));
        }
        Ok(Network { loss, delay_ms })
    }
}
