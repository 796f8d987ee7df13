//! The generator's job for one work of one server.

use std::io;
use std::time::Duration;

use super::entrant::Server;
use super::herd::herd_requests;
use super::order::{each_once, order};
use super::request::{BROWSER, request, request_bytes};
use super::turn::Turn;
use crate::load::{self, ANY_LENGTH, Bulk, Client, Expected, Job, OneTimeDownload, Tls};
use crate::plan::Work;
use crate::sample::{Beside, ConnectionUse, Offered};

/// A longer response time is an error, after the time of the file at `RATE_MIN`.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Likewise for a page over a network with losses.
const PAGE_WITHIN: Duration = Duration::from_secs(120);

/// Slowest rate of a large file, in bytes a second.
const RATE_MIN: f64 = 20e6;

/// Sessions that may be under way at once, in seconds of their rate: the warm-up must collect as
/// many tickets before handshakes are resumed.
const TICKETS_S: f64 = 0.2;

impl<T> Turn<'_, T> {
    pub(super) fn job(&self, server: &Server, work: &Work, offered: Offered) -> io::Result<Job> {
        let target = server.addr();
        let known = self.plan.files.iter().find(|file| file.name == work.file);
        let file = known.ok_or_else(|| io::Error::other(format!("no file {:?}", work.file)))?;
        let resumes = matches!(work.over, Some(ConnectionUse::Anew { resumed: true }));
        let stock = resumes.then(|| tickets(&offered));
        let protocol = load::protocol(work.over);
        let tls = server.trust().map(|trust| Tls::new(trust, stock, protocol));
        let host = server.authority();
        let fields: &[_] = if work.browser { &BROWSER } else { &[] };
        let ask = |name: String| request_bytes(&host, &server.url_path(&name), work.over, fields);
        let (requests, order) = match work.over {
            Some(ConnectionUse::Herd) => {
                herd_requests(&host, &server.url_path(&file.name), &offered)
            }
            // Each page has each file.
            Some(ConnectionUse::Page { .. }) => {
                (file.names().map(ask).collect(), (0..file.count).collect())
            }
            _ => (file.names().map(ask).collect(), order(file, work.zipf)),
        };
        // The checks before and after compare the lengths of files of several sizes.
        let body_bytes = if file.bytes_max.is_some() { ANY_LENGTH } else { file.bytes };
        let longest = file.bytes_max.unwrap_or(file.bytes) as f64;
        Ok(Job {
            target,
            client: Client::default(),
            requests,
            bodies: Vec::new(),
            order,
            expected: Expected { status: 200, body_bytes, body: None },
            offered,
            tls: tls.transpose().map_err(io::Error::other)?,
            over: work.over,
            beside: work
                .beside
                .as_ref()
                .filter(|beside| beside.has_streams())
                .map(|beside| self.bulk(server, beside)),
            draw: self.round.into(),
            warm_up: Duration::ZERO,
            duration: self.plan.sample,
            timeout: answer_within(work) + Duration::from_secs_f64(longest / RATE_MIN),
            stop: self.arena.stop.clone(),
        })
    }

    fn bulk(&self, server: &Server, beside: &Beside) -> Bulk {
        let target = server.addr();
        let length = beside.file_bytes;
        let put = |path: String| {
            let head = format!("PUT {path} HTTP/1.1\r\nHost: {target}\r\nContent-Length: {length}");
            format!("{head}\r\nUser-Agent: deathmatch\r\n\r\n").into_bytes()
        };
        let paths = (0..beside.uploads).filter_map(|at| server.upload_path(&format!("{at}.bin")));
        Bulk {
            downloads: beside.downloads,
            download: request(&server.authority(), &server.url_path(&beside.file)),
            uploads: paths.map(put).collect(),
            once: self.one_time_downloads(server, beside),
            body_bytes: length,
            rate: beside.bytes_per_s,
        }
    }

    /// Every cold file, in the order of the requests.
    fn one_time_downloads(&self, server: &Server, beside: &Beside) -> Vec<OneTimeDownload> {
        let files = self.plan.files.iter();
        let Some(file) = files.filter(|_| beside.cold.is_some()).find(|f| f.name == beside.file)
        else {
            return Vec::new();
        };
        let ask = |number| OneTimeDownload {
            request: request(&server.authority(), &server.url_path(&file.nth(number))),
            body_bytes: file.size(number),
        };
        each_once(file.count).into_iter().map(ask).collect()
    }
}

/// A longer response time is an error, after the time of a large file.
fn answer_within(work: &Work) -> Duration {
    if matches!(work.over, Some(ConnectionUse::Page { .. })) { PAGE_WITHIN } else { ANSWER_WITHIN }
}

/// Number of tickets for all simultaneous connections.
fn tickets(offered: &Offered) -> usize {
    match *offered {
        Offered::Closed { connections } | Offered::Open { connections, .. } => connections as usize,
        Offered::Sessions { rate, .. } => (rate * TICKETS_S).ceil() as usize,
    }
}
