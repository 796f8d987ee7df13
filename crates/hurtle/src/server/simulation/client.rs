//! Clients of HTTP/1, and what they may see.

use std::time::Duration;

use super::Mood;
use super::message::{Body, Head, body};
use super::request::Asked;
use crate::clock;
use crate::transport::Transport as _;
use crate::transport::memory::{Memory, Random, Watched};

/// How long a client waits in all. Whatever happens, the server must have ended the connection by then.
const PATIENCE: Duration = Duration::from_secs(130);

/// Less than the shortest time after which a deadline wakes a task.
const SWIFT_MS_MAX: u64 = 40;

/// A client's end of a connection.
pub(super) struct Client {
    pub(super) io: Memory,
    pub(super) random: Random,
    /// What may go wrong on this connection.
    pub(super) mood: Mood,
}

/// How a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Reset,
}

type Seen = Result<(), String>;

/// Does it, but not for ever.
pub(super) async fn patiently(io: &Watched, task: impl Future<Output = Seen>) -> Seen {
    match tokio::time::timeout(PATIENCE, task).await {
        Ok(seen) => seen,
        Err(_) if io.is_alone() => Ok(()),
        Err(_) => Err("the server keeps a connection that does not move".to_owned()),
    }
}

impl Client {
    /// Asks for all of these on a connection, each when the last one is answered or all at once.
    pub(super) async fn ask(mut self, asked: Vec<Asked>, pipelined: bool, version: &str) -> Seen {
        let mut sent = Vec::new();
        for (n, request) in asked.iter().enumerate() {
            let is_last = n + 1 == asked.len();
            let mut more = match is_last && self.random.is_one_in(2) {
                true => "Connection: close\r\n".to_owned(),
                false => String::new(),
            };
            let expects =
                self.mood != Mood::Swift && request.method == "POST" && self.random.is_one_in(3);
            if expects && version == "1.1" {
                more.push_str("Expect: 100-continue\r\n");
            }
            sent.push((request.encode(&mut self.random, version, &more), expects));
        }
        let begun_ms = clock::now_ms();
        let mut received = Vec::new();
        if pipelined {
            let whole: Vec<u8> =
                sent.into_iter().flat_map(|((head, body), _)| [head, body].concat()).collect();
            let random = self.random.clone();
            let sending = async {
                // The server may not want to hear all of it.
                let _ = self.send(&whole, random).await;
            };
            let reading = async {
                for request in &asked {
                    if !self.answer(request, &mut received, version).await? {
                        return Ok(false);
                    }
                }
                Ok::<bool, String>(true)
            };
            let (read, ()) = tokio::join!(reading, sending);
            if !read? {
                return check_time(self.mood, begun_ms);
            }
        } else {
            for (request, ((head, content), expects)) in asked.iter().zip(sent) {
                let _ = self.send(&head, self.random.clone()).await;
                if expects {
                    self.await_leave(&mut received).await;
                }
                let random = Random::new(self.random.next(), 0);
                let sending = self.send(&content, random);
                let reading = self.answer(request, &mut received, version);
                let (read, _) = tokio::join!(reading, sending);
                if !read? {
                    return check_time(self.mood, begun_ms);
                }
            }
        }
        check_time(self.mood, begun_ms)?;
        self.leave(received).await
    }

    /// Waits for leave to send a body.
    async fn await_leave(&self, received: &mut Vec<u8>) {
        let leave = async { while received.is_empty() && self.fill(received).await.is_none() {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), leave).await;
    }

    /// Reads an answer; false: the connection ended before it did.
    async fn answer(
        &self,
        asked: &Asked,
        received: &mut Vec<u8>,
        version: &str,
    ) -> Result<bool, String> {
        let mut end = None;
        loop {
            let Some(head) = Head::read(received)? else {
                if let Some(end) = end {
                    asked.broken(&format!("{end:?} in place of an answer"))?;
                    return Ok(false);
                }
                end = self.fill(received).await;
                continue;
            };
            let status = head.status()?;
            if (100..200).contains(&status) {
                if version != "1.1" {
                    return Err("an interim answer to HTTP/1.0".to_owned());
                }
                received.drain(..head.len);
                continue;
            }
            let bodiless = asked.method == "HEAD" || matches!(status, 204 | 304);
            let until_end = Some(end == Some(End::Finished));
            match body(&head, &received[head.len..], bodiless, until_end)? {
                Body::Whole(body, len) => {
                    asked.check(status, head.get("x-id"), &body)?;
                    received.drain(..head.len + len);
                    // Nothing may follow.
                    let closes = head.get("connection") == Some("close");
                    if closes && !received.is_empty() {
                        return Err("bytes behind the last answer".to_owned());
                    }
                    if closes && self.mood.is_calm() && end.is_none() {
                        return Ok(true);
                    }
                    return Ok(end.is_none() && !closes);
                }
                Body::Part(_) => {
                    if let Some(end) = end {
                        asked.broken(&format!("{end:?} within the answer"))?;
                        return Ok(false);
                    }
                }
            }
            end = self.fill(received).await;
        }
    }

    /// Reads once; returns the connection's end.
    async fn fill(&self, received: &mut Vec<u8>) -> Option<End> {
        let mut piece = [0; 4 << 10];
        match self.io.read(&mut piece).await {
            Ok(0) => Some(End::Finished),
            Ok(n) => {
                received.extend_from_slice(&piece[..n]);
                None
            }
            Err(_) => Some(End::Reset),
        }
    }

    /// All is answered: ends the connection and sees that the server does.
    async fn leave(mut self, mut received: Vec<u8>) -> Seen {
        match self.random.within(0, 2) {
            0 => return Ok(()),
            1 => self.io.finish(),
            // Or the server must end it.
            _ => {}
        }
        while self.fill(&mut received).await.is_none() {}
        match received.is_empty() {
            true => Ok(()),
            false => Err(format!("an answer to no request: {}", received.escape_ascii())),
        }
    }

    /// Sends what is no request, and a sound one behind it.
    pub(super) async fn misbehave(mut self) -> Seen {
        let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(40 << 10));
        let bad = self.random.pick(&[
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX Y: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n",
            "GET / HTTP/9.9\r\nHost: a\r\n\r\n",
            "\u{16}\u{3}\u{1}\0\0\0",
            "\r\n\r\n\r\n\r\n GET",
            &large,
        ]);
        let whole = format!("{bad}GET /f/small HTTP/1.1\r\nHost: a\r\n\r\n");
        let (mut received, random) = (Vec::new(), self.random.clone());
        let reading = async {
            let mut end = None;
            while end.is_none() {
                end = self.fill(&mut received).await;
            }
        };
        let _ = tokio::join!(reading, self.send(whole.as_bytes(), random));
        let Some(head) = Head::read(&received)? else {
            return match self.mood.is_calm() {
                true => Err(format!("{:?} gets no answer", &bad[..bad.len().min(80)])),
                false => Ok(()),
            };
        };
        let status = head.status()?;
        if !(400..600).contains(&status) {
            return Err(format!("{:?} gets {status}", &bad[..bad.len().min(80)]));
        }
        match body(&head, &received[head.len..], false, Some(false))? {
            Body::Whole(_, len) if head.len + len < received.len() => {
                Err("bytes behind the answer to what is no request".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Stops within a head: the server ends the connection when it is time to, and not before.
    pub(super) async fn stop_in_head(self, limit: Duration) -> Seen {
        let head = b"GET /f/small HTTP/1.1\r\nHost: a\r\n";
        let _ = self.io.write(head).await;
        self.await_end(limit).await
    }

    /// Stops within an upload of which it has sent much at once.
    pub(super) async fn stop_in_body(self, path: &str, limit: Duration) -> Seen {
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n");
        let _ = self.io.write(&[head.as_bytes(), &[b'x'; 20_000]].concat()).await;
        self.await_end(limit).await
    }

    /// Asks for nothing more after an answer.
    pub(super) async fn stay_idle(self, limit: Duration) -> Seen {
        let _ = self.io.write(b"GET /f/small HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut received = Vec::new();
        loop {
            if let Some(head) = Head::read(&received)?
                && let Body::Whole(..) = body(&head, &received[head.len..], false, None)?
            {
                break;
            }
            if self.fill(&mut received).await.is_some() {
                return Err("no answer before it is idle".to_owned());
            }
        }
        self.await_end(limit).await
    }

    async fn await_end(&self, limit: Duration) -> Seen {
        let (begun_ms, limit_ms) = (clock::now_ms(), limit.as_millis() as u64);
        while self.fill(&mut Vec::new()).await.is_none() {}
        let took_ms = clock::now_ms() - begun_ms;
        // What was written before was on its way for a while; what the server does next, too.
        match (limit_ms.saturating_sub(500)..limit_ms + 3_000).contains(&took_ms) {
            true => Ok(()),
            false => Err(format!("ended after {took_ms} ms, where {limit_ms} are the limit")),
        }
    }

    /// Asks for much and takes nothing of it.
    pub(super) async fn take_nothing(self, limit: Duration) -> Seen {
        let asked = Asked::large();
        let (head, _) = asked.encode(&mut self.random.clone(), "1.1", "");
        let _ = self.io.write(&head).await;
        tokio::time::sleep(limit + Duration::from_secs(2)).await;
        match self.io.is_alone() {
            true => Ok(()),
            false => Err("a client that takes nothing is kept".to_owned()),
        }
    }

    /// Goes away at some moment.
    pub(super) async fn vanish(mut self, asked: Vec<Asked>) -> Seen {
        let ms = self.random.within(0, 300);
        let asking = self.ask(asked, true, "1.1");
        tokio::time::timeout(Duration::from_millis(ms), asking).await.unwrap_or(Ok(()))
    }

    /// Sends it in pieces, with pauses.
    async fn send(&self, mut bytes: &[u8], mut random: Random) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(random.within(1, bytes.len() as u64) as usize);
            self.io.write(piece).await?;
            bytes = rest;
            if self.mood != Mood::Swift && random.is_one_in(4) {
                tokio::time::sleep(Duration::from_millis(random.within(1, 100))).await;
            }
        }
        Ok(())
    }
}

/// Where nothing takes time, an answer takes none.
pub(super) fn check_time(mood: Mood, since_ms: u64) -> Seen {
    let took_ms = clock::now_ms() - since_ms;
    match mood == Mood::Swift && took_ms > SWIFT_MS_MAX {
        true => Err(format!("the answers took {took_ms} ms, where nothing takes time")),
        false => Ok(()),
    }
}
