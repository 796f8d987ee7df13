//! The upstream of the simulation. The request path selects the response and its faults.

use std::time::Duration;

use super::message::{Body, Head, ResponseSpec, body, chunked, pattern};
use crate::transport::Transport as _;
use crate::transport::memory::{Memory, Random};

/// Modes with a correct response.
pub(super) const RELIABLE_MODES: &[&str] = &["length", "chunked", "close", "interim", "slow"];

/// Modes with a correct response without delays.
pub(super) const INSTANT_MODES: &[&str] = &["length", "chunked", "close", "interim"];

/// Modes with a fault.
pub(super) const FAULTY_MODES: &[&str] = &[
    "early",
    "cut",
    "reset",
    "stall",
    "silent",
    "garbage",
    "gone",
    "extra",
    "leaves",
    "cut-chunks",
];

/// A time longer than the server's limits for upstreams.
const FOREVER: Duration = Duration::from_secs(60);

/// The next step of a connection after a response.
enum Next {
    KeepAlive,
    Close,
    Reset,
}

/// Serves a connection until it ends.
pub(super) async fn serve(io: Memory, mut random: Random) {
    let mut input = Vec::new();
    while let Some(head) = read_head(&io, &mut input).await {
        let path = head.start.split(' ').nth(1).unwrap_or_default().to_owned();
        let is_head = head.start.starts_with("HEAD ");
        let Some(spec) = ResponseSpec::parse(&path) else { return };
        input.drain(..head.len);
        let upload = if spec.mode == "early" {
            None
        } else {
            match read_body(&io, &head, &mut input).await {
                Some(upload) => Some(upload),
                None => return,
            }
        };
        let upload = upload.filter(|_| head.start.starts_with("POST "));
        match respond(&io, &spec, upload, is_head, &mut random).await {
            // After an unread body the start of the next request is unknown.
            Ok(Next::KeepAlive) if spec.mode != "early" => {}
            Ok(Next::Reset) => return io.abort(),
            Ok(_) | Err(_) => return,
        }
    }
}

async fn read_head(io: &Memory, input: &mut Vec<u8>) -> Option<Head> {
    loop {
        if let Some(head) = Head::read(input).expect("the server sends valid requests") {
            return Some(head);
        }
        fill(io, input).await?;
    }
}

async fn read_body(io: &Memory, head: &Head, input: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Body::Whole(read, len) = body(head, input, false, None).expect("valid framing") {
            input.drain(..len);
            return Some(read);
        }
        fill(io, input).await?;
    }
}

async fn fill(io: &Memory, input: &mut Vec<u8>) -> Option<()> {
    let mut piece = [0; 4 << 10];
    match io.read(&mut piece).await {
        Ok(n) if n > 0 => {
            input.extend_from_slice(&piece[..n]);
            Some(())
        }
        _ => None,
    }
}

async fn respond(
    io: &Memory,
    spec: &ResponseSpec,
    upload: Option<Vec<u8>>,
    is_head: bool,
    random: &mut Random,
) -> std::io::Result<Next> {
    let ResponseSpec { id, len, mode } = spec;
    let content = upload.unwrap_or_else(|| pattern(*id, *len));
    let len = content.len();
    let mode = mode.as_str();
    let begin = format!("HTTP/1.1 200 OK\r\nX-Id: {id}\r\nCache-Control: max-age=60\r\n");
    let sized = format!("{begin}Content-Length: {len}\r\n\r\n").into_bytes();
    let part = random.within(0, len as u64) as usize;
    match mode {
        "silent" => {
            tokio::time::sleep(FOREVER).await;
            return Ok(Next::Close);
        }
        "gone" => return Ok(Next::Close),
        "garbage" => {
            io.write(b"HTTP/1.1 2000 no\r\nContent-Length: 1, 2\r\n\r\nx").await?;
            return Ok(Next::Close);
        }
        "interim" => {
            io.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").await?;
        }
        _ => {}
    }
    if is_head {
        io.write(&sized).await?;
        return Ok(Next::KeepAlive);
    }
    match mode {
        "chunked" => {
            let head = format!("{begin}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
            io.write(&[head, chunked(&content, random)].concat()).await?;
        }
        "cut-chunks" => {
            let head = format!("{begin}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
            let chunks = chunked(&content, random);
            let part = random.within(0, chunks.len() as u64 - 1) as usize;
            io.write(&[&head, &chunks[..part]].concat()).await?;
            return Ok(Next::Close);
        }
        "close" => {
            let head = format!("{begin}Connection: close\r\n\r\n").into_bytes();
            io.write(&[head, content].concat()).await?;
            return Ok(Next::Close);
        }
        "cut" | "reset" | "stall" => {
            io.write(&sized).await?;
            io.write(&content[..part]).await?;
            match mode {
                "cut" => return Ok(Next::Close),
                "reset" => return Ok(Next::Reset),
                _ => tokio::time::sleep(FOREVER).await,
            }
            return Ok(Next::Close);
        }
        "slow" => {
            io.write(&sized).await?;
            for piece in content.chunks(len / 3 + 1) {
                tokio::time::sleep(Duration::from_millis(random.within(1, 500))).await;
                io.write(piece).await?;
            }
        }
        "extra" => {
            let extra = b"HTTP/1.1 200 OK\r\nX-Id: 0\r\nContent-Length: 0\r\n\r\n";
            // In one write: after the next request, the extra response would count as its response.
            io.write_at_once(&[&sized[..], &content, extra].concat());
        }
        _ => io.write(&[sized, content].concat()).await?,
    }
    Ok(if mode == "leaves" { Next::Close } else { Next::KeepAlive })
}
