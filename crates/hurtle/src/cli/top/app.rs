//! The state of `hurtle top`: the last figures, the order of the rows and the scroll position.

use std::io;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::metrics::Snapshot;
use crate::metrics::rates::{Rates, SortKey};

/// Lines of a page of scrolling.
const PAGE_LINES: usize = 10;

#[derive(Debug, Default)]
pub(super) struct App {
    last: Option<Snapshot>,
    /// The figures of the last interval; `None`: the server has not answered yet.
    pub(super) rates: Option<Rates>,
    pub(super) sort: SortKey,
    /// Lines that are scrolled away; the view bounds it.
    pub(super) scroll: usize,
    /// The reason that the server does not answer, and for how long.
    pub(super) outage: Option<(String, Duration)>,
    answered: Option<Instant>,
}

/// The next step after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    Quit,
}

impl App {
    /// Takes a status, or the reason that there is none.
    pub(super) fn update(&mut self, status: io::Result<Snapshot>, now: Instant) {
        match status {
            Ok(status) => {
                let mut rates = Rates::between(self.last.as_ref(), &status);
                rates.sort(self.sort);
                self.rates = Some(rates);
                self.last = Some(status);
                self.outage = None;
                self.answered = Some(now);
            }
            Err(e) => {
                let since = *self.answered.get_or_insert(now);
                self.outage = Some((e.to_string(), now.saturating_duration_since(since)));
            }
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Step {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if has_control => return Step::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return Step::Quit,
            KeyCode::Char('r') => self.sort_by(SortKey::Requests),
            KeyCode::Char('l') => self.sort_by(SortKey::Latency),
            KeyCode::Char('e') => self.sort_by(SortKey::Errors),
            KeyCode::Char('b') => self.sort_by(SortKey::Bytes),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(PAGE_LINES),
            KeyCode::PageDown => self.scroll += PAGE_LINES,
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        Step::Stay
    }

    fn sort_by(&mut self, key: SortKey) {
        self.sort = key;
        if let Some(rates) = &mut self.rates {
            rates.sort(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(time: f64, start_time: f64, received_bytes: u64) -> Snapshot {
        let mut status = Snapshot { time, received_bytes, ..Snapshot::default() };
        status.process.start_time = start_time;
        status
    }

    #[test]
    fn figures_stay_while_the_server_is_gone_and_begin_again_with_the_next_process() {
        let mut app = App::default();
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        app.update(Err(io::Error::other("no server")), after(0));
        assert!(app.rates.is_none());
        app.update(Ok(status(11.0, 1.0, 100)), after(1));
        app.update(Ok(status(12.0, 1.0, 150)), after(2));
        let received = |app: &App| app.rates.as_ref().map(|rates| rates.received);
        assert_eq!((received(&app), &app.outage), (Some(50.0), &None));
        app.update(Err(io::Error::other("no server")), after(5));
        let outage = Some(("no server".to_owned(), Duration::from_secs(3)));
        assert_eq!((received(&app), &app.outage), (Some(50.0), &outage));
        app.update(Ok(status(20.0, 18.0, 10)), after(10));
        assert_eq!((received(&app), &app.outage), (Some(5.0), &None));
    }

    #[test]
    fn keys_sort_scroll_and_quit() {
        let mut app = App::default();
        let plain = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
        let sorts = [('l', SortKey::Latency), ('e', SortKey::Errors), ('b', SortKey::Bytes)];
        for (key, sort) in sorts.into_iter().chain([('r', SortKey::Requests)]) {
            assert_eq!((app.press(plain(key)), app.sort), (Step::Stay, sort), "{key}");
        }
        for (key, scroll) in [(KeyCode::Up, 0), (KeyCode::Down, 1), (KeyCode::PageDown, 11)] {
            app.press(KeyEvent::new(key, KeyModifiers::NONE));
            assert_eq!(app.scroll, scroll, "{key:?}");
        }
        assert_eq!(app.press(plain('c')), Step::Stay);
        assert_eq!(app.press(plain('q')), Step::Quit);
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.press(control), Step::Quit);
    }
}
