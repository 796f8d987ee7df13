//! The floor on io_uring: the kernel's cost of receiving a request and sending a file, by the
//! cheapest way that io_uring has. It responds as `deathmatch-floor` does, which waits with epoll,
//! but takes no uploads.
//!
//! `deathmatch-floor-uring PORT DIRECTORY WORKERS [FIELD]`, on 127.0.0.1. FIELD is in every
//! response with a file. `deathmatch-floor-uring --check` fails if the system has no such io_uring.

#![deny(unsafe_code)] // but for ring.rs

mod ring;
mod worker;

use std::io::{self, Write};
use std::net::TcpListener;
use std::process::ExitCode;
use std::thread;

use deathmatch_floors::{Answers, Arguments};

use ring::Ring;
use worker::Worker;

const PROGRAM: &str = "deathmatch-floor-uring";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let version = || writeln!(io::stdout(), "{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
    let done = match words[..] {
        ["--version"] => version(),
        ["--check"] => ring().and_then(|_| version()),
        _ => Arguments::read(PROGRAM, &words).and_then(|arguments| serve(&arguments)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "{PROGRAM}: {e}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> io::Result<()> {
    // The kernel sends from the answers, so they live as long as the process.
    let answers: &'static Answers =
        Box::leak(Box::new(Answers::read(&arguments.root, &arguments.field)?));
    let listeners = arguments.listeners()?;
    thread::scope(|scope| {
        let run = |listener: &TcpListener| Worker::new(ring()?, answers, listener)?.run();
        let threads: Vec<_> = listeners.iter().map(|l| scope.spawn(move || run(l))).collect();
        for thread in threads {
            thread.join().map_err(|_| io::Error::other("a worker panicked"))??;
        }
        Ok(())
    })
}

/// The ring of the calling thread.
fn ring() -> io::Result<Ring> {
    let hint = "it needs Linux 6.1 or later, and leave to use io_uring, which containers and \
                kernel.io_uring_disabled (sysctl) often refuse";
    Ring::new()
        .map_err(|e| io::Error::new(e.kind(), format!("io_uring is not available: {e}; {hint}")))
}
