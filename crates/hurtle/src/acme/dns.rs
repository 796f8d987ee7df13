//! A client of the DNS (RFC 1035): one question to one server, over UDP, and over TCP if the answer
//! is too long. `simple_dns` encodes and parses the messages. Calls block.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

/// Longest wait for the answer to one datagram, or on a connection.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// Datagrams of one question.
const TRIES: usize = 2;

/// Longest answer over UDP (RFC 1035 section 4.2.1; questions do not offer more).
const DATAGRAM_BYTES_MAX: usize = 512;

/// Kinds of records that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    Cname,
    Ns,
    Txt,
}

/// A record of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Its name, in lower case without the root's dot.
    pub(super) owner: String,
    pub(super) kind: RecordKind,
    /// A name like `owner`, or the text of a TXT record.
    pub(super) value: String,
}

/// Asks `server` for records of a name; returns the records of the answer of all known kinds. An
/// unknown name has none. `recursive`: the server asks other servers.
///
/// # Errors
/// It does not answer, or with an error.
pub(super) fn ask(
    server: SocketAddr,
    name: &str,
    kind: RecordKind,
    recursive: bool,
) -> io::Result<Vec<Record>> {
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    let id = u16::from_be_bytes(id);
    let question = question(id, name, kind, recursive)?;
    let mut answer = Err(io::Error::from(ErrorKind::TimedOut));
    for _ in 0..TRIES {
        answer = over_udp(server, id, &question);
        if answer.is_ok() {
            break;
        }
    }
    match records(&answer?, id, &question)? {
        Some(records) => Ok(records),
        None => {
            let answer = over_tcp(server, &question)?;
            let cut = || io::Error::other("an answer over TCP is cut");
            records(&answer, id, &question)?.ok_or_else(cut)
        }
    }
}

fn question(id: u16, name: &str, kind: RecordKind, recursive: bool) -> io::Result<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    if recursive {
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
    }
    let kind = match kind {
        RecordKind::Cname => TYPE::CNAME,
        RecordKind::Ns => TYPE::NS,
        RecordKind::Txt => TYPE::TXT,
    };
    let name = Name::new(name).map_err(io::Error::other)?;
    let class = QCLASS::CLASS(CLASS::IN);
    packet.questions.push(Question::new(name, QTYPE::TYPE(kind), class, false));
    packet.build_bytes_vec().map_err(io::Error::other)
}

/// Sends the question in a datagram from a random port; returns the first answer with this id.
fn over_udp(server: SocketAddr, id: u16, question: &[u8]) -> io::Result<Vec<u8>> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    // Datagrams of other senders are then not received.
    socket.connect(server)?;
    socket.send(question)?;
    let end = Instant::now() + ANSWER_TIME_MAX;
    let mut answer = [0; DATAGRAM_BYTES_MAX];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut answer) {
            Ok(n) if answer.get(..2) == Some(&id.to_be_bytes()) => {
                return Ok(answer.get(..n).unwrap_or_default().to_vec());
            }
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Sends the question over a connection (RFC 1035 section 4.2.2).
fn over_tcp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect_timeout(&server, ANSWER_TIME_MAX)?;
    connection.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    connection.set_write_timeout(Some(ANSWER_TIME_MAX))?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    connection.write_all(&[&length.to_be_bytes(), question].concat())?;
    let mut length = [0; 2];
    connection.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    connection.read_exact(&mut answer)?;
    Ok(answer)
}

/// Returns the records of an answer; `None`: it is cut.
fn records(answer: &[u8], id: u16, question: &[u8]) -> io::Result<Option<Vec<Record>>> {
    let broken = |what: &str| io::Error::new(ErrorKind::InvalidData, what.to_owned());
    let asked = Packet::parse(question).map_err(io::Error::other)?;
    let packet = Packet::parse(answer);
    let packet = packet.map_err(|e| broken(&format!("a malformed answer: {e}")))?;
    let text = |packet: &Packet<'_>| {
        let first = packet.questions.first();
        first.map(|asked| (name_text(&asked.qname), asked.qtype))
    };
    if packet.id() != id || !packet.has_flags(PacketFlag::RESPONSE) || text(&packet) != text(&asked)
    {
        return Err(broken("an answer to another question"));
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Ok(None);
    }
    match packet.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Ok(Some(Vec::new())),
        other => return Err(io::Error::other(format!("it answers {other:?}"))),
    }
    let record = |owner: &Name<'_>, data: &RData<'_>| {
        let (kind, value) = match data {
            RData::CNAME(target) => (RecordKind::Cname, name_text(&target.0)),
            RData::NS(server) => (RecordKind::Ns, name_text(&server.0)),
            RData::TXT(text) => (RecordKind::Txt, String::try_from(text.clone()).ok()?),
            _ => return None,
        };
        Some(Record { owner: name_text(owner), kind, value })
    };
    let answers = packet.answers.iter();
    Ok(Some(answers.filter_map(|answer| record(&answer.name, &answer.rdata)).collect()))
}

/// Values of records of one kind, of a name or of all.
pub(super) fn values(records: Vec<Record>, owner: Option<&str>, kind: RecordKind) -> Vec<String> {
    let is_meant =
        |record: &Record| record.kind == kind && owner.is_none_or(|owner| record.owner == owner);
    records.into_iter().filter(is_meant).map(|record| record.value).collect()
}

/// A name in lower case.
fn name_text(name: &Name<'_>) -> String {
    name.to_string().to_ascii_lowercase()
}

#[cfg(test)]
pub(super) mod tests {
    use std::iter;
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};
    use std::thread;

    use proptest::prelude::*;
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{CNAME, NS, TXT};

    use super::*;

    /// A server for tests, over UDP and TCP.
    pub(crate) struct Zone {
        pub(crate) address: SocketAddr,
        records: Arc<Mutex<Vec<Record>>>,
    }

    impl Zone {
        /// Starts a server with these records. Answers over UDP are cut if `is_long`.
        pub(crate) fn start(records: &[(&str, RecordKind, &str)], is_long: bool) -> Zone {
            // A port that is free for UDP may be taken for TCP.
            let (udp, tcp) = iter::repeat_with(|| UdpSocket::bind("127.0.0.1:0").unwrap())
                .find_map(|udp| Some((TcpListener::bind(udp.local_addr().unwrap()).ok()?, udp)))
                .map(|(tcp, udp)| (udp, tcp))
                .unwrap();
            let address = udp.local_addr().unwrap();
            let zone = Zone { address, records: Arc::default() };
            records.iter().for_each(|(owner, kind, value)| zone.add(owner, *kind, value));
            let of_udp = Arc::clone(&zone.records);
            thread::spawn(move || {
                let mut question = [0; DATAGRAM_BYTES_MAX];
                while let Ok((n, from)) = udp.recv_from(&mut question) {
                    let answer = answer(&question[..n], &of_udp.lock().unwrap(), is_long);
                    udp.send_to(&answer, from).unwrap();
                }
            });
            let of_tcp = Arc::clone(&zone.records);
            thread::spawn(move || {
                for mut connection in tcp.incoming().map(Result::unwrap) {
                    let mut length = [0; 2];
                    connection.read_exact(&mut length).unwrap();
                    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                    connection.read_exact(&mut question).unwrap();
                    let answer = answer(&question, &of_tcp.lock().unwrap(), false);
                    let length = (answer.len() as u16).to_be_bytes();
                    connection.write_all(&[&length, &answer[..]].concat()).unwrap();
                }
            });
            zone
        }

        pub(crate) fn add(&self, owner: &str, kind: RecordKind, value: &str) {
            let (owner, value) = (owner.to_owned(), value.to_owned());
            self.records.lock().unwrap().push(Record { owner, kind, value });
        }
    }

    fn answer(question: &[u8], records: &[Record], is_cut: bool) -> Vec<u8> {
        let asked = Packet::parse(question).unwrap();
        let mut packet = Packet::new_reply(asked.id());
        packet.questions.push(asked.questions[0].clone());
        let asked_for = name_text(&asked.questions[0].qname);
        let is_known = |name: &str| records.iter().any(|record| record.owner == name);
        let wildcard = asked_for.split_once('.').map(|(_, above)| format!("*.{above}"));
        let name = wildcard.filter(|name| !is_known(&asked_for) && is_known(name));
        let name = name.unwrap_or_else(|| asked_for.clone());
        let kind = match asked.questions[0].qtype {
            QTYPE::TYPE(TYPE::CNAME) => RecordKind::Cname,
            QTYPE::TYPE(TYPE::NS) => RecordKind::Ns,
            _ => RecordKind::Txt,
        };
        if is_cut {
            packet.set_flags(PacketFlag::TRUNCATION);
        } else if !is_known(&name) {
            *packet.rcode_mut() = RCODE::NameError;
        }
        let found = records.iter().filter(|record| !is_cut && record.owner == name);
        for record in found.filter(|record| record.kind == kind) {
            let value = Name::new(&record.value).unwrap();
            let data = match record.kind {
                RecordKind::Cname => RData::CNAME(CNAME(value)),
                RecordKind::Ns => RData::NS(NS(value)),
                RecordKind::Txt => RData::TXT(TXT::new().with_string(&record.value).unwrap()),
            };
            let owner = Name::new(&asked_for).unwrap();
            packet.answers.push(ResourceRecord::new(owner, CLASS::IN, 1, data));
        }
        packet.build_bytes_vec().unwrap()
    }

    #[test]
    fn records_come_over_udp_and_long_answers_over_tcp() {
        let known = [
            ("a.test", RecordKind::Txt, "one"),
            ("a.test", RecordKind::Txt, "two"),
            ("a.test", RecordKind::Ns, "ns.a.test"),
            ("b.test", RecordKind::Cname, "a.test"),
        ];
        for is_long in [false, true] {
            let zone = Zone::start(&known, is_long);
            let values = |name: &str, kind| -> Vec<String> {
                let records = ask(zone.address, name, kind, true).unwrap();
                records.into_iter().map(|record| record.value).collect()
            };
            assert_eq!(values("a.test", RecordKind::Txt), ["one", "two"], "{is_long}");
            assert_eq!(values("A.Test", RecordKind::Ns), ["ns.a.test"], "{is_long}");
            assert_eq!(values("b.test", RecordKind::Cname), ["a.test"], "{is_long}");
            assert_eq!(values("c.test", RecordKind::Txt), [""; 0], "an unknown name");
        }
    }

    proptest! {
        /// A peer may send anything: compressed names that point anywhere, lengths of other data.
        #[test]
        fn no_answer_makes_it_panic_or_loop(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        ) {
            let asked = question(7, "a.test", RecordKind::Txt, true).unwrap();
            // A malformed answer is an error, which is expected here.
            let _ = records(&bytes, 7, &asked);
            let known = ["one", "two"].map(|value| Record {
                owner: "a.test".to_owned(),
                kind: RecordKind::Txt,
                value: value.to_owned(),
            });
            let mut answer = answer(&asked, &known, false);
            for (at, byte) in changes {
                *at.get_mut(&mut answer) = byte;
            }
            let _ = records(&answer, 7, &asked);
        }
    }

    #[test]
    fn answers_that_are_none_are_errors() {
        let asked = question(7, "a.test", RecordKind::Txt, true).unwrap();
        let other = question(7, "b.test", RecordKind::Txt, true).unwrap();
        let own = |question: &[u8]| answer(question, &[], false);
        let refused = {
            let mut packet = Packet::parse(&asked).unwrap().into_reply();
            *packet.rcode_mut() = RCODE::Refused;
            packet.build_bytes_vec().unwrap()
        };
        let table = [
            ("the question itself", asked.clone(), 7, "another question"),
            ("of another name", own(&other), 7, "another question"),
            ("of another id", own(&asked), 8, "another question"),
            ("cut in the middle", own(&asked)[..20].to_vec(), 7, "malformed"),
            ("empty", Vec::new(), 7, "malformed"),
            ("a refusal", refused, 7, "it answers Refused"),
        ];
        for (sentence, answer, id, expected) in table {
            let found = records(&answer, id, &asked).unwrap_err().to_string();
            assert!(found.contains(expected), "{sentence}: {found}");
        }
    }
}
