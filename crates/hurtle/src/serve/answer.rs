//! Answers the request of one stream of HTTP/2 or HTTP/3.

use hurtle_http::request::{self, Joined, ParseError, PartialLine};

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
        Arrived::TooLarge => {
            refuse(&mut connection, ParseError::HeadTooLarge, PartialLine::default()).await
        }
        Arrived::Head(section, is_end) => {
            let limits = &connection.worker.head_limits;
            match &request::from_section(section, !is_end, &joined, limits) {
                Ok(request) => run_exchange(&mut connection, request).await,
                Err(error) => {
                    let (method, target) = (section.method(), section.path());
                    let line = PartialLine { method, target, is_http11: false };
                    refuse(&mut connection, *error, line).await
                }
            }
        }
    };
    match next {
        Next::Request | Next::Close | Next::Linger => connection.io.finish(),
        Next::Drop => {}
        Next::Abort => connection.io.abort(),
    }
}
