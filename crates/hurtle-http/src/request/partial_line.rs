//! The request line of a request that is refused.

/// A request line as far as it can be told, for the log of a request that is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartialLine<'a> {
    /// The method; empty if there is none.
    pub method: &'a [u8],
    /// The target; without a method, the whole line.
    pub target: &'a [u8],
    /// `true`: the line ends with the version HTTP/1.1; any other counts as 1.0 in the log.
    pub is_http11: bool,
}
