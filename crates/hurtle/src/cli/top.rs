//! `hurtle top`: live figures of a running server in a terminal. `view` draws them, `poll` reads
//! them by the admin socket; `metrics::rates` computes them.

mod app;
mod poll;
mod view;

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use self::app::{App, Step};
use super::ConfigProblems;
use super::admin::AdminArgs;
use crate::config;
use crate::metrics::rates::{Rates, SortKey};
use crate::metrics::report::Report;

/// Shortest interval between two requests to the server.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Longest wait for a key before new figures are looked for.
const KEY_WAIT: Duration = Duration::from_millis(50);

/// Width of the text of `--once` in columns.
const PLAIN_WIDTH: usize = 120;

#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    server: AdminArgs,
    /// Time between two requests to the server, over which rates are computed.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    /// Print the figures of one interval and end, as without a terminal.
    #[arg(long)]
    once: bool,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = config::parse_duration(text)?;
    if interval < INTERVAL_MIN {
        return Err("write 100ms or more".to_owned());
    }
    Ok(interval)
}

impl TopArgs {
    /// Shows the figures until the user quits; returns the text to print, if it prints only one.
    ///
    /// # Errors
    /// The configuration is wrong or names no admin socket; the error of the server or the
    /// terminal.
    pub fn run(&self) -> Result<io::Result<String>, ConfigProblems> {
        let socket = self.server.socket()?;
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        Ok(match self.once || !is_terminal {
            true => once(&socket, self.interval),
            false => live(&socket, self.interval).map(|()| String::new()),
        })
    }
}

/// Returns the figures of one interval as text.
fn once(socket: &Path, interval: Duration) -> io::Result<String> {
    let before = poll::status(socket)?;
    thread::sleep(interval);
    let mut rates = Rates::between(Some(&before), &poll::status(socket)?);
    rates.sort(SortKey::default());
    Ok(view::plain(&Report::new(&rates, SortKey::default()), PLAIN_WIDTH))
}

/// Shows the figures until the user quits or a signal ends the command.
fn live(socket: &Path, interval: Duration) -> io::Result<()> {
    // First, so that no other thread takes these signals.
    let is_ended = end_by_signals()?;
    let polled = poll::start(socket, interval)?;
    // Restores the terminal when a thread panics, too.
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, &polled, &is_ended);
    ratatui::restore();
    shown
}

fn show(
    terminal: &mut DefaultTerminal,
    polled: &poll::Polled,
    is_ended: &AtomicBool,
) -> io::Result<()> {
    let mut app = App::default();
    let colours = view::Colours::of_environment();
    let mut is_changed = true;
    while !is_ended.load(Relaxed) {
        if is_changed {
            terminal.draw(|frame| view::draw(frame, &mut app, colours))?;
        }
        is_changed = event::poll(KEY_WAIT)?;
        if is_changed {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Release => {}
                Event::Key(key) if app.press(key) == Step::Quit => return Ok(()),
                _ => {}
            }
        }
        while let Ok(status) = polled.try_recv() {
            app.update(status, Instant::now());
            is_changed = true;
        }
    }
    Ok(())
}

/// Takes the signals that end a process on a thread of its own, which sets the flag: the terminal
/// is restored first.
fn end_by_signals() -> io::Result<Arc<AtomicBool>> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block()?;
    let is_ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_ended);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        // An error is not possible: the set has only valid signals.
        let _ = signals.wait();
        flag.store(true, Relaxed);
    })?;
    Ok(is_ended)
}
