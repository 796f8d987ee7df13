//! Golden screens of `hurtle top`: `tests/golden/top`. `HURTLE_BLESS=1` writes them anew.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::metrics::Snapshot;

/// A status of a server with two sites, an upstream that is down, and a reload that failed.
fn status(name: &str) -> Snapshot {
    let text = fs::read_to_string(golden(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/top").join(name)
}

fn app() -> App {
    let mut app = App::default();
    app.update(Ok(status("before.json")), Instant::now());
    app.update(Ok(status("after.json")), Instant::now());
    app
}

#[track_caller]
fn screen(app: &mut App, width: u16, height: u16, colours: Colours) -> (String, bool) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app, colours)).unwrap();
    let buffer = terminal.backend().buffer();
    let is_coloured = buffer.content.iter().any(|cell| cell.fg != Color::Reset);
    let rows = buffer.content.chunks(usize::from(width.max(1)));
    let text = |row: &[ratatui::buffer::Cell]| -> String {
        let text: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned() + "\n"
    };
    (rows.map(text).collect(), is_coloured)
}

#[track_caller]
fn compare(name: &str, found: &str) {
    if env::var_os("HURTLE_BLESS").is_some() {
        fs::write(golden(name), found).unwrap();
    }
    let expected = fs::read_to_string(golden(name)).unwrap_or_default();
    assert_eq!(found, expected, "{name}; HURTLE_BLESS=1 writes it anew");
}

#[test]
fn screens_of_two_sizes_are_as_recorded() {
    for (width, height, name) in [(80, 24, "80x24.txt"), (120, 40, "120x40.txt")] {
        let (text, is_coloured) = screen(&mut app(), width, height, Colours::On);
        compare(name, &text);
        assert!(is_coloured);
        assert!(!screen(&mut app(), width, height, Colours::Off).1, "NO_COLOR");
    }
    compare("plain.txt", &plain(&Report::new(&app().rates.unwrap(), Default::default()), 120));
}

#[test]
fn the_screen_scrolls_to_the_last_line_and_says_that_the_server_is_gone() {
    let mut app = app();
    app.scroll = 1_000;
    app.update(Err(io::Error::other("no server listens")), Instant::now());
    app.outage.as_mut().unwrap().1 = Duration::from_secs(3);
    let (text, _) = screen(&mut app, 80, 24, Colours::On);
    compare("scrolled.txt", &text);
    // Any size is drawn.
    for (width, height) in [(0, 0), (1, 1), (3, 2), (20, 5), (400, 100)] {
        screen(&mut app, width, height, Colours::On);
    }
}
