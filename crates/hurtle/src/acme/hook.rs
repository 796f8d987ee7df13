//! The records of one attempt, written and removed by the program `dns_hook`. A process outside of
//! the sandbox runs it (`lifecycle::dns_hooks`). Each attempt is a connection to that process,
//! whose end removes the records: also if the attempt is given up, or the server ends.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::propagation;
use crate::config::DnsHook;
use crate::rt;
use crate::tls::Challenge;

/// Opens a connection to the process.
pub(crate) type Connect = Box<dyn Fn() -> io::Result<UnixStream> + Send + Sync>;

/// The name of the record below a name (RFC 8555 section 8.4).
pub(crate) const LABEL: &str = "_acme-challenge";

/// Answer of the process to a call that has succeeded.
pub(crate) const DONE: &str = "ok";

/// First word of its answer to one that has failed.
pub(crate) const FAILED: &str = "failed ";

/// Longest answer of the process.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Time that the process may take longer than the time limit of the hook, to end it.
const EXTRA_TIME: Duration = Duration::from_secs(15);

/// The process; unset: there is none.
static CONNECT: OnceLock<Connect> = OnceLock::new();

/// Sets the process that runs the hook, once.
pub(crate) fn set_process(connect: Connect) {
    // A second server in this process has the same one.
    let _ = CONNECT.set(connect);
}

/// The records of an attempt.
#[derive(Debug)]
pub(super) struct Records {
    hook: DnsHook,
    connection: Arc<UnixStream>,
}

impl Records {
    /// Connects to the process.
    ///
    /// # Errors
    /// The process of the hook has ended, or was not started.
    pub(super) fn open(hook: &DnsHook) -> Result<Records, String> {
        let connect = CONNECT.get().ok_or_else(|| gone(&io::ErrorKind::NotFound.into()))?;
        let connection = connect().map_err(|e| gone(&e))?;
        let limit = Some(hook.timeout + EXTRA_TIME);
        connection.set_read_timeout(limit).map_err(|e| e.to_string())?;
        Ok(Records { hook: hook.clone(), connection: Arc::new(connection) })
    }

    /// Writes the records of all challenges, and waits until the servers of their zones have them.
    ///
    /// # Errors
    /// The reason, for the log.
    pub(super) async fn publish(&self, challenges: &[Challenge]) -> Result<(), String> {
        for challenge in challenges {
            let (fqdn, connection) = (fqdn(&challenge.name), Arc::clone(&self.connection));
            let line = format!("{fqdn} {}\n", challenge.digest);
            let presented = rt::blocking(move || present(&connection, &line)).await;
            presented.map_err(|e| e.to_string())?.map_err(|why| format!("{fqdn}: {why}"))?;
            tracing::debug!("{fqdn}: dns_hook has written a record");
        }
        for challenge in challenges {
            let (fqdn, value) = (fqdn(&challenge.name), challenge.digest.clone());
            let hook = self.hook.clone();
            let seen = rt::blocking(move || propagation::wait(&fqdn, &value, &hook)).await;
            seen.map_err(|e| e.to_string())??;
        }
        Ok(())
    }

    /// Removes the records; a failure is logged only, because the certificate does not depend on
    /// it.
    pub(super) async fn remove(self, name: &str) {
        let connection = Arc::clone(&self.connection);
        let failures = rt::blocking(move || end(&connection)).await;
        for failure in failures.unwrap_or_default() {
            tracing::warn!("{name}: a record may remain in the DNS: {failure}");
        }
    }
}

impl Drop for Records {
    /// Ends the attempt at once if it is given up while the hook runs: the thread that waits for
    /// the hook has the connection too.
    fn drop(&mut self) {
        // An error means that the process has ended.
        let _ = self.connection.shutdown(Shutdown::Both);
    }
}

/// The name of a record, with the root's dot.
fn fqdn(name: &str) -> String {
    format!("{LABEL}.{name}.")
}

/// Has the hook write one record.
fn present(mut connection: &UnixStream, line: &str) -> Result<(), String> {
    connection.write_all(line.as_bytes()).map_err(|e| gone(&e))?;
    let answer = answer(connection).map_err(|e| gone(&e))?;
    match answer.strip_prefix(FAILED) {
        Some(why) => Err(why.to_owned()),
        None if answer == DONE => Ok(()),
        None => Err(gone(&io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Reads one line without buffering what follows.
fn answer(mut connection: &UnixStream) -> io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while (line.len() as u64) < ANSWER_BYTES_MAX {
        match connection.read(&mut byte)? {
            0 => break,
            _ if byte == *b"\n" => break,
            _ => line.extend(byte),
        }
    }
    String::from_utf8(line).map_err(io::Error::other)
}

/// Ends the attempt, and waits until the hook has removed its records; returns the failures.
fn end(connection: &UnixStream) -> Vec<String> {
    // An error means that the process has ended.
    let _ = connection.shutdown(Shutdown::Write);
    let lines = BufReader::new(connection.take(ANSWER_BYTES_MAX)).lines();
    let failure = |line: io::Result<String>| match line {
        Ok(line) => line.strip_prefix(FAILED).map(str::to_owned),
        Err(e) => Some(gone(&e)),
    };
    lines.filter_map(failure).collect()
}

fn gone(error: &io::Error) -> String {
    format!(
        "the process that runs dns_hook does not answer ({error}); `hurtle upgrade` or a restart \
         starts another"
    )
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn answers_of_the_process_are_outcomes() {
        let table = [
            ("done", "ok\n", Ok(())),
            ("a failure", "failed it exits with 1: no\n", Err("it exits with 1: no")),
            ("the process has ended", "", Err("does not answer (unexpected end of file)")),
        ];
        for (sentence, answer, expected) in table {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let process = thread::spawn(move || {
                let mut line = String::new();
                BufReader::new(&theirs).read_line(&mut line).unwrap();
                theirs.write_all(answer.as_bytes()).unwrap();
                line
            });
            let found = present(&ours, "_acme-challenge.a.test. value\n");
            assert_eq!(process.join().unwrap(), "_acme-challenge.a.test. value\n", "{sentence}");
            match (found, expected) {
                (Ok(()), Ok(())) => {}
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, _) => panic!("{sentence}: {found:?}"),
            }
        }
    }

    #[test]
    fn an_attempt_that_is_given_up_ends_the_connection_while_the_hook_runs() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let hook = DnsHook { program: "/hook".into(), timeout: Duration::ZERO, resolvers: vec![] };
        let records = Records { hook, connection: Arc::new(ours) };
        let connection = Arc::clone(&records.connection);
        let waits = thread::spawn(move || present(&connection, "_acme-challenge.a.test. value\n"));
        BufReader::new(&theirs).read_line(&mut String::new()).unwrap();
        drop(records);
        assert!(waits.join().unwrap().is_err());
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0, "the process gets the end");
    }

    #[test]
    fn failures_to_remove_records_are_returned() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"failed one\nok\nfailed two\n").unwrap();
        drop(theirs);
        assert_eq!(end(&ours), ["one", "two"]);
    }
}
