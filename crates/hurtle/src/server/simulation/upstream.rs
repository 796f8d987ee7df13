//! An upstream that answers as the path asks it to: in pieces, late, not at all, or wrongly.

use std::time::Duration;

use super::message::{Body, Head, Wanted, body, chunked, pattern};
use crate::transport::Transport as _;
use crate::transport::memory::{Memory, Random};

/// Modes in which an upstream does what it should.
pub(super) const SOUND: &[&str] = &["length", "chunked", "close", "interim", "slow"];

/// Those of them that take no time.
pub(super) const SWIFT: &[&str] = &["length", "chunked", "close", "interim"];

/// And others.
pub(super) const UNSOUND: &[&str] = &[
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

/// Longer than any limit of these tests.
const FOREVER: Duration = Duration::from_secs(60);

/// What becomes of the connection.
enum Then {
    GoesOn,
    Closes,
    Resets,
}

/// Serves a connection to its end.
pub(super) async fn serve(io: Memory, mut random: Random) {
    let mut input = Vec::new();
    while let Some(head) = read_head(&io, &mut input).await {
        let path = head.start.split(' ').nth(1).unwrap_or_default().to_owned();
        let is_head = head.start.starts_with("HEAD ");
        let Some(wanted) = Wanted::of(&path) else { return };
        input.drain(..head.len);
        let upload = if wanted.mode == "early" {
            None
        } else {
            match read_body(&io, &head, &mut input).await {
                Some(upload) => Some(upload),
                None => return,
            }
        };
        let upload = upload.filter(|_| head.start.starts_with("POST "));
        match answer(&io, &wanted, upload, is_head, &mut random).await {
            // Behind a body that it has not read there is no telling requests apart.
            Ok(Then::GoesOn) if wanted.mode != "early" => {}
            Ok(Then::Resets) => return io.abort(),
            Ok(_) | Err(_) => return,
        }
    }
}

async fn read_head(io: &Memory, input: &mut Vec<u8>) -> Option<Head> {
    loop {
        if let Some(head) = Head::read(input).expect("the server sends sound requests") {
            return Some(head);
        }
        fill(io, input).await?;
    }
}

async fn read_body(io: &Memory, head: &Head, input: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Body::Whole(read, len) = body(head, input, false, None).expect("sound framing") {
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

async fn answer(
    io: &Memory,
    wanted: &Wanted,
    upload: Option<Vec<u8>>,
    is_head: bool,
    random: &mut Random,
) -> std::io::Result<Then> {
    let Wanted { id, len, mode } = wanted;
    let content = upload.unwrap_or_else(|| pattern(*id, *len));
    let len = content.len();
    let mode = mode.as_str();
    let begin = format!("HTTP/1.1 200 OK\r\nX-Id: {id}\r\nCache-Control: max-age=60\r\n");
    let sized = format!("{begin}Content-Length: {len}\r\n\r\n").into_bytes();
    let part = random.within(0, len as u64) as usize;
    match mode {
        "silent" => {
            tokio::time::sleep(FOREVER).await;
            return Ok(Then::Closes);
        }
        "gone" => return Ok(Then::Closes),
        "garbage" => {
            io.write(b"HTTP/1.1 2000 no\r\nContent-Length: 1, 2\r\n\r\nx").await?;
            return Ok(Then::Closes);
        }
        "interim" => {
            io.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").await?;
        }
        _ => {}
    }
    if is_head {
        io.write(&sized).await?;
        return Ok(Then::GoesOn);
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
            return Ok(Then::Closes);
        }
        "close" => {
            let head = format!("{begin}Connection: close\r\n\r\n").into_bytes();
            io.write(&[head, content].concat()).await?;
            return Ok(Then::Closes);
        }
        "cut" | "reset" | "stall" => {
            io.write(&sized).await?;
            io.write(&content[..part]).await?;
            match mode {
                "cut" => return Ok(Then::Closes),
                "reset" => return Ok(Then::Resets),
                _ => tokio::time::sleep(FOREVER).await,
            }
            return Ok(Then::Closes);
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
            // At once: what comes later than the next request would be its answer.
            io.put(&[&sized[..], &content, extra].concat());
        }
        _ => io.write(&[sized, content].concat()).await?,
    }
    Ok(if mode == "leaves" { Then::Closes } else { Then::GoesOn })
}
