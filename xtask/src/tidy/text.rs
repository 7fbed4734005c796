//! Rules for text of any kind: no leftovers, no machine's own paths, no trailing whitespace.

use super::{File, Problem};

/// Notes to oneself, which belong into an issue. Put together here so that this file obeys.
const BANNED: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Directories of one machine. Each must be followed by a name: the directory for temporary files
/// may be mentioned, but not a file in it.
const MACHINE: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/t", "mp/")];

/// Files in which words are prose.
const PROSE: [&str; 2] = [".md", ".txt"];

pub(super) fn check(file: &File) -> Vec<Problem> {
    let is_code = !PROSE.iter().any(|ending| file.path.ends_with(ending));
    let mut problems = Vec::new();
    for (number, line) in file.lines() {
        if line.ends_with(char::is_whitespace) {
            problems.push(file.problem(number, "whitespace at the end of the line"));
        }
        if let Some(word) = BANNED.iter().find(|word| is_code && has_word(line, word)) {
            problems.push(file.problem(number, format!("{word}: do it, or open an issue")));
        }
        if let Some(path) = MACHINE.iter().find(|path| has_path(line, path)) {
            let message = format!("{path}… is a path of one machine: others do not have it");
            problems.push(file.problem(number, message));
        }
    }
    problems
}

/// Whether the word is in the line, not as a part of another word.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_part(before) && !is_part(after)
    })
}

/// Whether the line has an absolute path which begins like this and goes on with a name.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        let goes_before = |c: char| c.is_alphanumeric() || "_.-~}".contains(c);
        !before.is_some_and(goes_before) && after.is_some_and(char::is_alphabetic)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{file, told};

    fn lines(path: &str, text: &str) -> Vec<String> {
        told(&check(&file(path, text)))
    }

    #[test]
    fn trailing_whitespace_fails() {
        let expected = ["2: whitespace at the end of the line"];
        assert_eq!(lines("README.md", "good\nbad \n"), expected);
    }

    #[test]
    fn notes_to_oneself_fail_in_code_and_pass_in_prose() {
        for word in BANNED {
            let text = format!("fn f() {{}} // {word}: later\n");
            assert_eq!(lines("a.rs", &text), [format!("1: {word}: do it, or open an issue")]);
            assert!(lines("a.md", &text).is_empty());
            assert!(lines("a.rs", &format!("const MY_{word}S: u8 = 1;")).is_empty());
        }
    }

    #[test]
    fn paths_of_one_machine_fail_anywhere() {
        for path in MACHINE {
            for text in [format!("see {path}file"), format!("{path}file"), format!("\"{path}file")]
            {
                assert_eq!(lines("notes.md", &text).len(), 1, "{text}");
            }
        }
    }

    #[test]
    fn paths_that_only_look_like_one_machine_pass() {
        for path in MACHINE {
            for text in [format!("~{path}a"), format!("a.example{path}b"), format!("{path} ")] {
                assert!(!has_path(&text, path), "{text}");
            }
        }
    }
}
