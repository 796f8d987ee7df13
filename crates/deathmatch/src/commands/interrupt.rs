//! Ctrl-C: the flag that it sets, and what is said at the end of a run that it stopped.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use deathmatch::arena::{self, Arena};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::quoted;

/// A shell's exit code for a program that Ctrl-C ended (128 and the number of SIGINT).
const EXIT_INTERRUPTED: u8 = 130;

/// A flag that the first Ctrl-C sets; the second ends the program at once.
pub(super) fn on_signal() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, stop.clone())?;
        flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Says how to go on, if the command can.
pub(super) fn interrupted(arena: &Arena, can_resume: bool) -> io::Result<ExitCode> {
    let samples = arena.out.join(arena::SAMPLES);
    let mut text = format!("deathmatch: stopped; what was measured is in {}.", samples.display());
    if can_resume {
        let command = quoted(std::env::args().filter(|word| word != "--resume"));
        text += &format!(" Continue with:\n  {command} --resume");
    }
    // A failure here could not be reported.
    let _ = writeln!(io::stderr(), "{text}");
    Ok(ExitCode::from(EXIT_INTERRUPTED))
}
