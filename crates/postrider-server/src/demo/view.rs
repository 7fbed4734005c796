//! What a person sees: sentences about what happens, and below them the numbers, drawn in place on
//! a terminal or as a line now and then elsewhere.
//!
//! How it fails: it does not; a terminal that cannot be written to is not worth a failure.
//! Invariants: everything goes to standard error, so that standard output holds the verdict alone;
//! no line is wider than the terminal, because drawing in place counts lines.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::scene::{Scene, plain_line};

/// Without a terminal a line of numbers comes this often.
const PLAIN_EVERY: Duration = Duration::from_secs(2);
/// The width when nobody knows it.
const WIDTH: usize = 80;

/// Where the sentences and numbers go. Clones write to the same place.
#[derive(Clone)]
pub(super) struct View(Arc<Mutex<Screen>>);

struct Screen {
    is_live: bool,
    has_color: bool,
    /// The numbers as they stand on the terminal.
    drawn: Vec<String>,
    last_plain: Option<(Instant, String)>,
}

impl View {
    /// Looks at standard error and the environment.
    pub(super) fn new() -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let is_live = std::io::stderr().is_terminal() && !is_dumb;
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let screen = Screen {
            is_live,
            has_color: is_live && !no_color,
            drawn: Vec::new(),
            last_plain: None,
        };
        Self(Arc::new(Mutex::new(screen)))
    }

    /// Says a sentence.
    pub(super) fn tell(&self, sentence: &str) {
        self.with(|screen| {
            screen.erase();
            match screen.is_live {
                true => eprintln!("{}", wrapped(sentence, width())),
                false => eprintln!("{sentence}"),
            }
            screen.redraw();
        });
    }

    /// Shows the numbers.
    pub(super) fn draw(&self, scene: &Scene) {
        self.with(|screen| match screen.is_live {
            true => {
                let lines = scene.lines(screen.has_color, width());
                screen.erase();
                screen.drawn = lines;
                screen.redraw();
            }
            false => screen.plain(scene),
        });
    }

    /// Leaves the numbers standing; what comes next goes below them.
    pub(super) fn leave(&self) {
        self.with(|screen| {
            // What a person typed may stand below them: ^C.
            screen.erase();
            screen.redraw();
            screen.drawn.clear();
        });
    }

    fn with(&self, action: impl FnOnce(&mut Screen)) {
        action(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

impl Screen {
    /// Removes the numbers, so that a sentence can take their place.
    fn erase(&self) {
        if !self.drawn.is_empty() {
            eprint!("\x1b[{}A\r\x1b[J", self.drawn.len());
        }
    }

    /// Puts the numbers below whatever was written.
    fn redraw(&self) {
        if !self.drawn.is_empty() {
            eprintln!("{}", self.drawn.join("\n"));
        }
        let _ = std::io::stderr().flush();
    }

    fn plain(&mut self, scene: &Scene) {
        let line = plain_line(scene);
        let is_due = match &self.last_plain {
            None => true,
            Some((at, last)) => at.elapsed() >= PLAIN_EVERY && *last != line,
        };
        if is_due {
            eprintln!("{line}");
            self.last_plain = Some((Instant::now(), line));
        }
    }
}

fn width() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(WIDTH, |(width, _)| width.0.into())
}

/// The text with line breaks between words where it is wider than `width`.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let mut column = 0;
        for word in line.split(' ') {
            let long = word.chars().count();
            if column > 0 && column + 1 + long > width {
                out.push_str("\n  ");
                column = 2;
            } else if column > 0 {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += long;
        }
    }
    out
}

/// A number and its noun: `1 job`, `2,000 jobs`.
pub(super) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(number as i64))
}

/// A number with commas between its thousands.
pub(super) fn thousands(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_break_between_words() {
        assert_eq!(wrapped("one two three\nfour", 9), "one two\n  three\nfour");
        assert_eq!(wrapped("unbreakable", 4), "unbreakable");
    }

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (-1_234_567, "-1,234,567")]
        {
            assert_eq!(thousands(number), text);
        }
        assert_eq!(counted(1, "job"), "1 job");
        assert_eq!(counted(2000, "job"), "2,000 jobs");
    }
}
