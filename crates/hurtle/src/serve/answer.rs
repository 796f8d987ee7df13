//! Answers the request of one stream of HTTP/2 or HTTP/3.

use hurtle_http::request::{self, Joined, ParseError, PartialLine};
use hurtle_http::stream::FieldSection;

use crate::pipeline::{Connection, Next, refuse, run_exchange};
use crate::protocol::multiplexed::{Arrived, FrameStream, Stream};

/// Runs the exchange of a request, or refuses it.
pub(super) async fn answer<F: FrameStream>(
    mut connection: Connection<Stream<F>>,
    arrived: Arrived,
) {
    let _stream = connection.slot.open_stream();
    let joined = Joined::default();
    let next = match &arrived {
        Arrived::TooLarge(section) => {
            refuse(&mut connection, ParseError::HeadTooLarge, line_of(section)).await
        }
        Arrived::Head(section, is_end) => {
            let limits = &connection.worker.head_limits;
            match &request::from_section(section, !is_end, &joined, limits) {
                Ok(request) => run_exchange(&mut connection, request).await,
                Err(error) => refuse(&mut connection, *error, line_of(section)).await,
            }
        }
    };
    match next {
        Next::Request | Next::Close | Next::Linger => connection.io.finish(),
        Next::Drop => {}
        Next::Abort => connection.io.abort(),
    }
}

/// Returns the request line of a head for the log.
fn line_of(section: &FieldSection) -> PartialLine<'_> {
    PartialLine { method: section.method(), target: section.path(), is_http11: false }
}
