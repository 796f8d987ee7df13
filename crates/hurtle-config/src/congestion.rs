//! The setting of congestion control over QUIC. `hurtle::transport::quic` applies it.

use super::names::Named;

/// Congestion control of HTTP/3 connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Congestion {
    /// CUBIC (RFC 9438): each loss counts as congestion.
    #[default]
    Cubic,
    /// BBR (draft-cardwell-iccrg-bbr-congestion-control-00): measures the path's bandwidth, so that
    /// random losses do not slow it down.
    Bbr,
}

impl Named for Congestion {
    const NAMES: &'static [(&'static str, Self)] = &[("cubic", Self::Cubic), ("bbr", Self::Bbr)];
}
