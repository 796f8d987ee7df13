//! HTTP/1 clients of the simulation, and the checks of what they receive.

use std::time::Duration;

use super::Conditions;
use super::message::{Body, Head, body};
use super::request::TestRequest;
use crate::clock;
use crate::transport::Transport as _;
use crate::transport::memory::{ConnectionWatch, Memory, Random};

/// Time limit of a client. The server must have closed every connection by then.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(130);

/// Longest time of a connection without delays, in milliseconds. It is less than the shortest time
/// after which a deadline wakes a task, so a lost wake-up exceeds it.
const INSTANT_MS_MAX: u64 = 40;

/// A client's end of a connection.
pub(super) struct Client {
    pub(super) io: Memory,
    pub(super) random: Random,
    /// The faults that may occur on this connection.
    pub(super) conditions: Conditions,
}

/// The end of a connection as the client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Reset,
}

/// The result of a client's checks; the error describes the violation.
type CheckResult = Result<(), String>;

/// Runs a client's task. After the time limit, the task passes only if the server has closed.
pub(super) async fn run_with_timeout(
    io: &ConnectionWatch,
    task: impl Future<Output = CheckResult>,
) -> CheckResult {
    match tokio::time::timeout(CLIENT_TIMEOUT, task).await {
        Ok(result) => result,
        Err(_) if io.is_peer_closed() => Ok(()),
        Err(_) => Err("the server keeps a connection without progress".to_owned()),
    }
}

impl Client {
    /// Sends the requests on one connection and checks the responses. `pipelined`: sends all at
    /// once instead of one after each response.
    pub(super) async fn send_requests(
        mut self,
        requests: Vec<TestRequest>,
        pipelined: bool,
        version: &str,
    ) -> CheckResult {
        let mut sent = Vec::new();
        for (n, request) in requests.iter().enumerate() {
            let is_last = n + 1 == requests.len();
            let mut more = match is_last && self.random.is_one_in(2) {
                true => "Connection: close\r\n".to_owned(),
                false => String::new(),
            };
            let expects = self.conditions != Conditions::Instant
                && request.method == "POST"
                && self.random.is_one_in(3);
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
                // The server may close before it has read everything.
                let _ = self.send(&whole, random).await;
            };
            let reading = async {
                for request in &requests {
                    if !self.read_response(request, &mut received, version).await? {
                        return Ok(false);
                    }
                }
                Ok::<bool, String>(true)
            };
            let (read, ()) = tokio::join!(reading, sending);
            if !read? {
                return check_time(self.conditions, begun_ms);
            }
        } else {
            for (request, ((head, content), expects)) in requests.iter().zip(sent) {
                let _ = self.send(&head, self.random.clone()).await;
                if expects {
                    self.await_continue(&mut received).await;
                }
                let random = Random::new(self.random.next(), 0);
                let sending = self.send(&content, random);
                let reading = self.read_response(request, &mut received, version);
                let (read, _) = tokio::join!(reading, sending);
                if !read? {
                    return check_time(self.conditions, begun_ms);
                }
            }
        }
        check_time(self.conditions, begun_ms)?;
        self.end_connection(received).await
    }

    /// Waits up to one second for a response, usually 100 (Continue), before the body is sent.
    async fn await_continue(&self, received: &mut Vec<u8>) {
        let arrival = async { while received.is_empty() && self.fill(received).await.is_none() {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), arrival).await;
    }

    /// Reads a final response and checks it. Returns whether the connection can be reused.
    async fn read_response(
        &self,
        request: &TestRequest,
        received: &mut Vec<u8>,
        version: &str,
    ) -> Result<bool, String> {
        let mut end = None;
        loop {
            let Some(head) = Head::read(received)? else {
                if let Some(end) = end {
                    request.check_failure(&format!("{end:?} instead of a response"))?;
                    return Ok(false);
                }
                end = self.fill(received).await;
                continue;
            };
            let status = head.status()?;
            if (100..200).contains(&status) {
                if version != "1.1" {
                    return Err("an interim response to HTTP/1.0".to_owned());
                }
                received.drain(..head.len);
                continue;
            }
            let bodiless = request.method == "HEAD" || matches!(status, 204 | 304);
            let until_end = Some(end == Some(End::Finished));
            match body(&head, &received[head.len..], bodiless, until_end)? {
                Body::Whole(body, len) => {
                    request.check(status, head.get("x-id"), &body)?;
                    received.drain(..head.len + len);
                    let closes = head.get("connection") == Some("close");
                    if closes && !received.is_empty() {
                        return Err("bytes after the last response".to_owned());
                    }
                    if closes && self.conditions.is_reliable() && end.is_none() {
                        return Ok(true);
                    }
                    return Ok(end.is_none() && !closes);
                }
                Body::Part(_) => {
                    if let Some(end) = end {
                        request.check_failure(&format!("{end:?} within the response"))?;
                        return Ok(false);
                    }
                }
            }
            end = self.fill(received).await;
        }
    }

    /// Reads once; returns the end of the connection if it was reached.
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

    /// Ends the connection after the last response; checks that the server closes it and sends
    /// nothing more.
    async fn end_connection(mut self, mut received: Vec<u8>) -> CheckResult {
        match self.random.within(0, 2) {
            0 => return Ok(()),
            1 => self.io.finish(),
            // The server closes an idle connection.
            _ => {}
        }
        while self.fill(&mut received).await.is_none() {}
        match received.is_empty() {
            true => Ok(()),
            false => Err(format!("an unrequested response: {}", received.escape_ascii())),
        }
    }

    /// Sends a malformed request, then a valid one; the response must be an error and the last.
    pub(super) async fn send_malformed(mut self) -> CheckResult {
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
            return match self.conditions.is_reliable() {
                true => Err(format!("{:?} gets no response", &bad[..bad.len().min(80)])),
                false => Ok(()),
            };
        };
        let status = head.status()?;
        if !(400..600).contains(&status) {
            return Err(format!("{:?} gets {status}", &bad[..bad.len().min(80)]));
        }
        match body(&head, &received[head.len..], false, Some(false))? {
            Body::Whole(_, len) if head.len + len < received.len() => {
                Err("bytes after the response to a malformed request".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Stops within a head; checks that the server closes after `limit`, and not before.
    pub(super) async fn stall_in_head(self, limit: Duration) -> CheckResult {
        let head = b"GET /f/small HTTP/1.1\r\nHost: a\r\n";
        let _ = self.io.write(head).await;
        self.await_end(limit).await
    }

    /// Stops within an upload after 20,000 bytes; checks that the server closes after `limit`.
    pub(super) async fn stall_in_body(self, path: &str, limit: Duration) -> CheckResult {
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n");
        let _ = self.io.write(&[head.as_bytes(), &[b'x'; 20_000]].concat()).await;
        self.await_end(limit).await
    }

    /// Sends nothing after a response; checks that the server closes after `limit`.
    pub(super) async fn stay_idle(self, limit: Duration) -> CheckResult {
        let _ = self.io.write(b"GET /f/small HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut received = Vec::new();
        loop {
            if let Some(head) = Head::read(&received)?
                && let Body::Whole(..) = body(&head, &received[head.len..], false, None)?
            {
                break;
            }
            if self.fill(&mut received).await.is_some() {
                return Err("no response before the idle time".to_owned());
            }
        }
        self.await_end(limit).await
    }

    /// Waits for the end of the connection; checks that it comes after `limit`.
    async fn await_end(&self, limit: Duration) -> CheckResult {
        let (begun_ms, limit_ms) = (clock::now_ms(), limit.as_millis() as u64);
        while self.fill(&mut Vec::new()).await.is_none() {}
        let took_ms = clock::now_ms() - begun_ms;
        // Delays of bytes in transit shift both the start and the end.
        match (limit_ms.saturating_sub(500)..limit_ms + 3_000).contains(&took_ms) {
            true => Ok(()),
            false => Err(format!("closed after {took_ms} ms; the limit is {limit_ms} ms")),
        }
    }

    /// Requests a large file and reads nothing; checks that the server closes after `limit`.
    pub(super) async fn read_nothing(self, limit: Duration) -> CheckResult {
        let request = TestRequest::large();
        let (head, _) = request.encode(&mut self.random.clone(), "1.1", "");
        let _ = self.io.write(&head).await;
        tokio::time::sleep(limit + Duration::from_secs(2)).await;
        match self.io.is_peer_closed() {
            true => Ok(()),
            false => Err("the server keeps a client that reads nothing".to_owned()),
        }
    }

    /// Disconnects after a random time.
    pub(super) async fn disconnect(mut self, requests: Vec<TestRequest>) -> CheckResult {
        let ms = self.random.within(0, 300);
        let sending = self.send_requests(requests, true, "1.1");
        tokio::time::timeout(Duration::from_millis(ms), sending).await.unwrap_or(Ok(()))
    }

    /// Sends bytes in pieces of random sizes, with pauses.
    async fn send(&self, mut bytes: &[u8], mut random: Random) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(random.within(1, bytes.len() as u64) as usize);
            self.io.write(piece).await?;
            bytes = rest;
            if self.conditions != Conditions::Instant && random.is_one_in(4) {
                tokio::time::sleep(Duration::from_millis(random.within(1, 100))).await;
            }
        }
        Ok(())
    }
}

/// Checks that responses took no time if the conditions have no delays.
pub(super) fn check_time(conditions: Conditions, since_ms: u64) -> CheckResult {
    let took_ms = clock::now_ms() - since_ms;
    match conditions == Conditions::Instant && took_ms > INSTANT_MS_MAX {
        true => Err(format!("the responses took {took_ms} ms without delays")),
        false => Ok(()),
    }
}
