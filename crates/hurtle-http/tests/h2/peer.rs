//! Tests with the client of the crate `h2` over a channel in memory.

use std::collections::HashMap;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use hurtle_http::h2::{Body, Connection, Event, FieldSection, Limits, Reason};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// A response in progress, which echoes the request's fields, body and trailers.
#[derive(Default)]
struct Echo {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
    trailers: Option<FieldSection>,
    is_read: bool,
    is_answered: bool,
    sent: usize,
}

/// Serves until the peer disconnects.
async fn serve(io: DuplexStream, limits: Limits) {
    let mut connection = Connection::new(&limits, 0);
    let mut echoes: HashMap<u32, Echo> = HashMap::new();
    let (mut input, mut output) = tokio::io::split(io);
    let mut buffer = vec![0; 5_000];
    let mut now_ms = 0;
    loop {
        // Repeats until the streams of the last events cause no further events.
        while act(&mut connection, &mut echoes) {}
        let bytes = connection.output().next().map(<[u8]>::to_vec).unwrap_or_default();
        if bytes.is_empty() && connection.is_finished() {
            return;
        }
        tokio::select! {
            written = output.write(&bytes), if !bytes.is_empty() => match written {
                Ok(n) => connection.consume(n),
                Err(_) => return,
            },
            read = input.read(&mut buffer) => match read {
                Ok(n @ 1..) => {
                    now_ms += 10;
                    connection.receive(&buffer[..n], now_ms);
                }
                _ => return,
            },
        }
    }
}

fn act(connection: &mut Connection, echoes: &mut HashMap<u32, Echo>) -> bool {
    let mut has_acted = false;
    while let Some(event) = connection.next_event() {
        has_acted = true;
        match event {
            Event::Request { id, head, .. } => {
                let fields = head.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
                let echo = Echo { fields: fields.collect(), ..Echo::default() };
                echoes.insert(id, echo);
                pump(connection, id, echoes);
            }
            Event::Readable(id) | Event::Writable(id) => pump(connection, id, echoes),
            Event::Reset(id, _) => drop(echoes.remove(&id)),
            Event::HeadTooLarge { id, .. } => connection.send_head(id, 431, [], true).unwrap(),
            Event::GoAway(_) => {}
            Event::Closed(reason) => assert_eq!(reason, Reason::NO_ERROR),
        }
    }
    has_acted
}

/// Reads and sends as much as possible.
fn pump(connection: &mut Connection, id: u32, echoes: &mut HashMap<u32, Echo>) {
    let Some(echo) = echoes.get_mut(&id) else { return };
    while !echo.is_read {
        match connection.read(id).unwrap() {
            Body::Data(data) => {
                connection.release(id, data.len());
                echo.body.extend_from_slice(&data);
            }
            Body::Trailers(trailers) => echo.trailers = Some(trailers),
            Body::End => echo.is_read = true,
            Body::NotYet => break,
        }
    }
    if !echo.is_answered {
        echo.is_answered = true;
        let hint = [(&b"Link"[..], &b"</a.css>"[..])];
        connection.send_informational(id, 103, hint).unwrap();
        let fields = echo.fields.iter().map(|(name, value)| (&name[..], &value[..]));
        connection.send_head(id, 200, fields, false).unwrap();
    }
    while echo.sent < echo.body.len() {
        let left = echo.body.len() - echo.sent;
        let n = connection.capacity(id, left).unwrap();
        if n == 0 {
            return;
        }
        let data = Bytes::copy_from_slice(&echo.body[echo.sent..echo.sent + n]);
        echo.sent += n;
        let is_end = echo.is_read && n == left && echo.trailers.is_none();
        connection.send_data(id, data, is_end).unwrap();
        if is_end {
            echoes.remove(&id);
            return;
        }
    }
    if echo.is_read {
        match &echo.trailers {
            Some(trailers) => connection.send_trailers(id, trailers).unwrap(),
            None => connection.send_data(id, Bytes::new(), true).unwrap(),
        }
        echoes.remove(&id);
    }
}

/// A request and the end of its exchange.
#[derive(Clone, Debug)]
struct Exchange {
    fields: Vec<(String, String)>,
    body: usize,
    has_trailers: bool,
    /// The client resets the stream after the head.
    is_reset: bool,
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let name = prop_oneof!["x-[a-z0-9-]{1,20}", Just("accept".to_owned()), Just("etag".to_owned())];
    let value = prop_oneof!["[ -~]{0,40}", "[a-z]{3}", "[\u{80}-\u{ff}]{1,9}"];
    let value = value.prop_map(|value| value.trim().to_owned());
    let fields = prop::collection::vec((name, value), 0..10);
    let body = prop_oneof![Just(0_usize), 1..100_usize, 1..200_000_usize];
    (fields, body, any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |(fields, body, has_trailers, is_reset)| Exchange { fields, body, has_trailers, is_reset },
    )
}

fn map(fields: &[(String, String)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(
            HeaderName::try_from(name).unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    map
}

fn contents(len: usize, seed: usize) -> Bytes {
    (0..len).map(|at| (at * 31 + seed * 7) as u8).collect::<Vec<_>>().into()
}

async fn talk(client: SendRequest<Bytes>, exchange: Exchange, seed: usize) {
    let mut request = Request::new(());
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = "http://a.example/path".parse().unwrap();
    *request.headers_mut() = map(&exchange.fields);
    let mut client = client.ready().await.unwrap();
    let has_body = exchange.body > 0 || exchange.has_trailers;
    let (response, mut stream) = client.send_request(request, !has_body).unwrap();
    drop(client);
    if exchange.is_reset {
        return stream.send_reset(h2::Reason::CANCEL);
    }
    if has_body {
        let body = contents(exchange.body, seed);
        stream.send_data(body, !exchange.has_trailers).unwrap();
    }
    if exchange.has_trailers {
        stream.send_trailers(map(&[("x-sum".to_owned(), seed.to_string())])).unwrap();
    }
    let (head, mut body) = response.await.unwrap().into_parts();
    assert_eq!((head.status.as_u16(), head.headers), (200, map(&exchange.fields)));
    let mut read = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        read.extend_from_slice(&data);
    }
    assert!(read == contents(exchange.body, seed), "{} of {} bytes", read.len(), exchange.body);
    let trailers = body.trailers().await.unwrap();
    let sum = trailers.as_ref().map(|trailers| trailers["x-sum"].to_str().unwrap().to_owned());
    assert_eq!(sum, exchange.has_trailers.then(|| seed.to_string()));
}

/// Settings of the client and the channel.
#[derive(Clone, Debug)]
struct Setting {
    window: u32,
    frame: u32,
    table: Option<u32>,
    channel: usize,
    queued: usize,
}

async fn run(exchanges: Vec<Exchange>, setting: Setting) {
    let (near, far) = tokio::io::duplex(setting.channel);
    let limits = Limits { queued_bytes_max: setting.queued, ..Limits::default() };
    let server = tokio::spawn(serve(far, limits));
    let mut builder = Builder::new();
    builder.initial_window_size(setting.window).max_frame_size(setting.frame);
    if let Some(table) = setting.table {
        builder.header_table_size(table);
    }
    let (client, connection) = builder.handshake(near).await.unwrap();
    let driving = tokio::spawn(connection);
    let talks: Vec<_> = exchanges
        .into_iter()
        .enumerate()
        .map(|(seed, exchange)| tokio::spawn(talk(client.clone(), exchange, seed)))
        .collect();
    for talk in talks {
        talk.await.unwrap();
    }
    drop(client);
    driving.await.unwrap().unwrap();
    server.await.unwrap();
}

fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let limit = std::time::Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(limit, future).await.expect("a hang") });
}

/// Small windows, in bytes. The client sends a WINDOW_UPDATE after a third of a window at the
/// earliest. The server accepts one per 256 bytes that it sent (`UPDATES` in `h2/flood.rs`) and
/// closes the connection beyond that, so a third must be more than 256 bytes.
const SMALL_WINDOW_BYTES: std::ops::Range<u32> = 1_000..3_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_request_and_response_arrives_equal(
        exchanges in prop::collection::vec(exchange(), 1..30),
        window in prop_oneof![Just(65_535_u32), SMALL_WINDOW_BYTES, Just(1 << 20)],
        frame in prop_oneof![Just(16_384_u32), Just(40_000)],
        table in prop_oneof![Just(None), (0..5_000_u32).prop_map(Some)],
        channel in prop_oneof![10..200_usize, Just(64 << 10)],
        queued in prop_oneof![Just(1_000_usize), Just(256 << 10)],
    ) {
        block_on(run(exchanges, Setting { window, frame, table, channel, queued }));
    }
}

#[test]
fn large_bodies_pass_every_window_both_ways() {
    let exchange =
        Exchange { fields: vec![], body: 3_000_000, has_trailers: true, is_reset: false };
    let setting = Setting {
        window: 65_535,
        frame: 16_384,
        table: None,
        channel: 64 << 10,
        queued: 256 << 10,
    };
    block_on(run(vec![exchange; 4], setting));
}
