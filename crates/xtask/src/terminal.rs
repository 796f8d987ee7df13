//! Formats headings, outcomes and times. Colours are used on a terminal only.

use std::io::IsTerminal;
use std::sync::LazyLock;
use std::time::Duration;

/// `https://no-color.org`: any value that is not empty turns colours off.
static COLOURS: LazyLock<bool> = LazyLock::new(|| {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
});

#[derive(Clone, Copy)]
pub(crate) enum Colour {
    Bold = 1,
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// Colours `text`, if colours are used.
pub(crate) fn paint(colour: Colour, text: &str) -> String {
    if has_colours() { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_owned() }
}

/// `true` if colours are used.
pub(crate) fn has_colours() -> bool {
    *COLOURS
}

/// The heading of a step's output, after an empty line.
pub(crate) fn heading(name: &str, about: &str) -> String {
    format!("\n{} {about}\n", paint(Colour::Bold, &format!("== {name}:")))
}

/// Formats a duration for a person.
pub(crate) fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        whole => format!("{} min {} s", whole / 60, whole % 60),
    }
}
