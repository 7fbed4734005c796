//! What a command prints: one JSON document, or tables for people.
//!
//! How it fails: an I/O error when standard output is closed. Invariants: everything is written at
//! once; control characters from the database never reach a terminal; colours only where allowed.

use std::io::{self, Write as _};

use serde::Serialize;
use time::OffsetDateTime;
use time::macros::format_description;

/// How to speak.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    /// JSON instead of text.
    pub(super) json: bool,
    /// Whether standard output is a terminal that may have colours.
    pub(super) colors: bool,
}

/// What a piece of text means, which is its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Head,
    Good,
    Busy,
    Bad,
    Faint,
}

impl Tone {
    /// The tone of a state's or verdict's word.
    pub(super) fn of_word(word: &str) -> Self {
        match word {
            "completed" | "fanned_out" | "ok" | "active" => Self::Good,
            "running" | "retryable" | "failing" | "owed" | "warning" | "retry" | "paused" => {
                Self::Busy
            }
            "discarded" | "poisoned" | "problem" | "lost" => Self::Bad,
            "cancelled" | "skipped" | "scheduled" | "forgotten" => Self::Faint,
            _ => Self::Plain,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Head => "\x1b[1m",
            Self::Good => "\x1b[32m",
            Self::Busy => "\x1b[33m",
            Self::Bad => "\x1b[31m",
            Self::Faint => "\x1b[2m",
        }
    }
}

impl Output {
    /// Prints `value` as JSON, or the text that `human` makes of it.
    pub(super) fn print<T: Serialize + ?Sized>(
        self,
        value: &T,
        human: impl FnOnce(&T) -> String,
    ) -> io::Result<()> {
        let mut text = match self.json {
            true => serde_json::to_string_pretty(value).map_err(io::Error::other)?,
            false => human(value),
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Colours `text` where that is allowed.
    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        if !self.colors || tone == Tone::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("{}{text}\x1b[0m", tone.code())
    }

    /// A state or verdict in its colour.
    pub(super) fn word(self, word: &str) -> String {
        self.paint(Tone::of_word(word), word)
    }

    /// Lines of `name  value`, without those that have no value.
    pub(super) fn fields(self, fields: &[(&str, String)]) -> String {
        let shown: Vec<_> = fields.iter().filter(|(_, value)| !value.is_empty()).collect();
        let width = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let line = |(name, value): &&(&str, String)| {
            let padded = format!("{name:<width$}");
            format!("{}  {value}\n", self.paint(Tone::Faint, &padded))
        };
        shown.iter().map(line).collect()
    }
}

/// A table with aligned columns.
#[derive(Debug)]
pub(super) struct Table {
    output: Output,
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(output: Output, head: &[&'static str]) -> Self {
        Self { output, head: head.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; its cells are made safe for a terminal.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| safe(&cell)).collect());
    }

    /// The table as text, or `empty` when it has no rows. Columns without any value are left out.
    pub(super) fn render(self, empty: &str) -> String {
        if self.rows.is_empty() {
            return format!("{empty}\n");
        }
        let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let shown: Vec<(usize, usize)> = (0..self.head.len())
            .filter_map(|column| {
                let widest = self.rows.iter().map(|row| width(&cell(row, column))).max()?;
                (widest > 0).then(|| (column, widest.max(self.head[column].len())))
            })
            .collect();
        let line = |cells: &dyn Fn(usize) -> (String, Tone)| {
            let mut text = String::new();
            for (place, (column, wide)) in shown.iter().enumerate() {
                let (content, tone) = cells(*column);
                let gap = wide.saturating_sub(width(&content));
                text.push_str(&self.output.paint(tone, &content));
                if place + 1 < shown.len() {
                    text.push_str(&" ".repeat(gap + 2));
                }
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
            text
        };
        let mut text = line(&|column| (self.head[column].to_owned(), Tone::Head));
        for row in &self.rows {
            text.push_str(&line(&|column| {
                let content = cell(row, column);
                let tone = match self.head[column] {
                    "STATE" | "OUTCOME" => Tone::of_word(&content),
                    _ => Tone::Plain,
                };
                (content, tone)
            }));
        }
        text
    }
}

/// Roughly how many columns a text takes. Wide scripts are off by one per letter, which only
/// shifts a column.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// The text without anything that a terminal could take for an order.
pub(super) fn safe(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push(' '),
            // Also the marks that turn the direction of writing, which can hide what is there.
            c if c.is_control()
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                shown.extend(c.escape_unicode());
            }
            c => shown.push(c),
        }
    }
    shown
}

/// At most `columns` of a text, with an ellipsis when there is more.
pub(super) fn short(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// A time for people: UTC to the second.
pub(super) fn time(at: OffsetDateTime) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]Z");
    at.to_offset(time::UtcOffset::UTC).format(&format).unwrap_or_else(|_| at.to_string())
}

/// A time that may be missing.
pub(super) fn time_or_none(at: Option<OffsetDateTime>) -> String {
    at.map(time).unwrap_or_default()
}

/// A time span for people.
pub(super) fn span(ms: i64) -> String {
    let seconds = ms / 1000;
    match seconds {
        i64::MIN..1 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Output = Output { json: false, colors: false };

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let mut table = Table::new(PLAIN, &["NAME", "TENANT", "STATE"]);
        table.row(["a".into(), String::new(), "owed".into()]);
        table.row(["longer".into(), String::new(), "skipped".into()]);
        assert_eq!(table.render("none"), "NAME    STATE\na       owed\nlonger  skipped\n");
        assert_eq!(Table::new(PLAIN, &["NAME"]).render("nothing"), "nothing\n");
    }

    #[test]
    fn what_could_command_a_terminal_is_escaped() {
        assert_eq!(safe("a\x1b[2Jb\nc\u{202e}d"), "a\\u{1b}[2Jb\\nc\\u{202e}d");
    }

    #[test]
    fn colours_surround_the_word_and_not_the_padding() {
        let output = Output { json: false, colors: true };
        let mut table = Table::new(output, &["STATE", "N"]);
        table.row(["ok".into(), "1".into()]);
        assert!(table.render("").contains("\x1b[32mok\x1b[0m     1"));
    }
}
