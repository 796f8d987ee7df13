//! A DNS server whose TXT records are files that a hook writes: a line for each value, in a file
//! named after the record. It answers the first questions after a change as a slow secondary would.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use simple_dns::rdata::{RData, TXT};
use simple_dns::{CLASS, Packet, QTYPE, ResourceRecord, TYPE};

use crate::pebble::Net;

/// Port of the server.
pub(crate) const PORT: u16 = 8054;

/// Shell commands of a hook that keeps its records in `$RECORDS`.
pub(crate) const KEEPS_RECORDS: &str = "case $1 in\n\
    present) printf '%s\\n' \"$3\" >> \"$RECORDS/$2\" ;;\n\
    cleanup) grep -vxFe \"$3\" \"$RECORDS/$2\" > \"$RECORDS/$2.new\"; mv \"$RECORDS/$2.new\" \"$RECORDS/$2\" ;;\n\
    esac\n";

/// The server, and a directory that the server's user may write.
pub(crate) struct Zone {
    records: PathBuf,
    /// Largest number of values that one name had.
    values_max: Arc<AtomicUsize>,
}

impl Zone {
    /// Starts the server; a value is in the answer to the `lag`-th question after it was written.
    pub(crate) fn start(net: &Net, lag: usize) -> Zone {
        let records = net.dir.path("../records");
        fs::create_dir_all(&records).unwrap();
        fs::set_permissions(&records, fs::Permissions::from_mode(0o777)).unwrap();
        let zone = Zone { records, values_max: Arc::default() };
        let datagrams = UdpSocket::bind(net.at(PORT)).unwrap();
        let connections = TcpListener::bind(net.at(PORT)).unwrap();
        let seen = Arc::new(Mutex::new(HashMap::new()));
        let known = Known {
            records: zone.records.clone(),
            lag,
            seen,
            values_max: Arc::clone(&zone.values_max),
        };
        let of_datagrams = known.clone();
        thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((n, from)) = datagrams.recv_from(&mut question) {
                let _ = datagrams.send_to(&of_datagrams.answer(&question[..n]), from);
            }
        });
        // The authority asks over TCP.
        thread::spawn(move || {
            for mut connection in connections.incoming().map(Result::unwrap) {
                let mut length = [0; 2];
                while connection.read_exact(&mut length).is_ok() {
                    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                    connection.read_exact(&mut question).unwrap();
                    let answer = known.answer(&question);
                    let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
                    let _ = connection.write_all(&[&length, &answer[..]].concat());
                }
            }
        });
        zone
    }

    /// Writes a hook with these commands; `$DIR` is a directory that it may write, `$RECORDS` too.
    pub(crate) fn hook(&self, net: &Net, commands: &str) -> PathBuf {
        let dir = net.dir.path("../hooks");
        fs::create_dir_all(&dir).unwrap();
        // Others may not replace the hook, whatever the umask is.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        let path = dir.join("hook");
        let records = self.records.display();
        let text = format!("#!/bin/sh\nRECORDS={records}\nDIR={records}\n{commands}");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// All values that are left.
    pub(crate) fn left(&self) -> Vec<String> {
        let files = fs::read_dir(&self.records).unwrap().map(|entry| entry.unwrap().path());
        files
            .filter(|path| path.to_string_lossy().contains("_acme-challenge"))
            .flat_map(|path| values(&path))
            .collect()
    }

    /// Reads what a hook wrote to `$DIR`.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.records.join(name)).unwrap_or_default()
    }

    pub(crate) fn values_max(&self) -> usize {
        self.values_max.load(Ordering::Relaxed)
    }
}

fn values(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The records as the server's threads know them.
#[derive(Clone)]
struct Known {
    records: PathBuf,
    lag: usize,
    /// Questions in whose time each value was in the file.
    seen: Arc<Mutex<HashMap<String, usize>>>,
    values_max: Arc<AtomicUsize>,
}

impl Known {
    /// Answers a question; other records than TXT do not exist.
    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let asked = Packet::parse(question).unwrap();
        let mut packet = Packet::new_reply(asked.id());
        let question = &asked.questions[0];
        packet.questions.push(question.clone());
        let values = match question.qtype {
            QTYPE::TYPE(TYPE::TXT) => self.values(&question.qname.to_string().to_ascii_lowercase()),
            _ => Vec::new(),
        };
        for value in &values {
            let text = RData::TXT(TXT::new().with_string(value).unwrap());
            packet.answers.push(ResourceRecord::new(question.qname.clone(), CLASS::IN, 1, text));
        }
        packet.build_bytes_vec().unwrap()
    }

    fn values(&self, name: &str) -> Vec<String> {
        let values = values(&self.records.join(format!("{name}.")));
        self.values_max.fetch_max(values.len(), Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap();
        let mut is_old = |value: &String| {
            let count = seen.entry(value.clone()).or_insert(0);
            *count += 1;
            *count > self.lag
        };
        values.into_iter().filter(|value| is_old(value)).collect()
    }
}
