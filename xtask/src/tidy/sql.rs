//! SQL lives in `.sql` files, where it is read, commented and tested as the language it is.
//!
//! A string in `crates/postrider/src` which looks like a statement fails, except in the modules
//! named `store`, and except after a comment `// tidy: sql — REASON` in the same line or the one
//! before.

use super::lexer::{Piece, Source};
use super::{File, Problem};

/// Where the rule holds.
const SCOPE: &str = "crates/postrider/src/";

/// The comment that makes an exception.
const EXCEPTION: &str = "tidy: sql";

pub(super) fn check(file: &File, source: &Source) -> Vec<Problem> {
    let Some(path) = file.path.strip_prefix(SCOPE) else {
        return Vec::new();
    };
    if path.split('/').any(|part| part == "store" || part == "store.rs") {
        return Vec::new();
    }
    let statements = source.strings.iter().filter(|string| looks_like_sql(&string.text));
    statements
        .filter(|string| !has_exception(source, string))
        .map(|string| {
            let message = "SQL in a Rust string: put it into a file in crates/postrider/sql, or \
                           say why not in a comment `// tidy: sql — REASON`";
            file.problem(string.line, message)
        })
        .collect()
}

/// Whether the text is a statement, as far as its words tell.
fn looks_like_sql(text: &str) -> bool {
    let text = text.to_lowercase();
    let is_separator = |c: char| !(c.is_alphanumeric() || c == '_');
    let words: Vec<&str> = text.split(is_separator).filter(|word| !word.is_empty()).collect();
    (0..words.len()).any(|at| match words[at..] {
        ["select" | "update", ref rest @ ..] => {
            rest.iter().any(|word| ["from", "into", "set", "where"].contains(word))
        }
        ["insert", "into", _, ..] | ["delete", "from", _, ..] => true,
        _ => false,
    })
}

/// Whether a comment beside the string makes an exception and gives a reason.
fn has_exception(source: &Source, string: &Piece) -> bool {
    source.comments.iter().any(|comment| {
        let is_beside = comment.line == string.line || comment.line + 1 == string.line;
        let reason = comment.text.split_once(EXCEPTION).map(|(_, reason)| reason);
        is_beside && reason.is_some_and(|reason| reason.chars().any(char::is_alphabetic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::file;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let problems = check(&file(path, text), &Source::of(text));
        problems.iter().map(|problem| problem.line).collect()
    }

    fn in_admin(text: &str) -> Vec<usize> {
        lines("crates/postrider/src/admin.rs", text)
    }

    #[test]
    fn statements_in_strings_fail() {
        for statement in [
            "select a from b",
            "SELECT\n  1 INTO x",
            "update t set a = 1",
            "insert into t values (1)",
            "delete from t",
            "with x as (select a\nfrom b) table x",
        ] {
            assert_eq!(in_admin(&format!("f(r#\"{statement}\"#)")), [1], "{statement}");
        }
    }

    #[test]
    fn words_that_are_no_statement_pass() {
        let sentences = ["select 1", "update it", "the update failed", "selected from", "a from b"];
        for sentence in sentences {
            assert!(in_admin(&format!("f(\"{sentence}\")")).is_empty(), "{sentence}");
        }
        assert!(in_admin("// select a from b\nfn f() {}").is_empty());
    }

    #[test]
    fn stores_and_other_crates_may_have_sql() {
        let text = "f(\"delete from t\")";
        assert!(lines("crates/postrider/src/store.rs", text).is_empty());
        assert!(lines("crates/postrider/src/store/job.rs", text).is_empty());
        assert!(lines("crates/postrider-testkit/src/template.rs", text).is_empty());
        assert_eq!(lines("crates/postrider/src/storefront.rs", text), [1]);
    }

    #[test]
    fn an_exception_needs_a_reason() {
        assert!(in_admin("// tidy: sql — a sentence\nf(\"delete from t\")").is_empty());
        assert!(in_admin("f(\"delete from t\") // tidy: sql — a sentence").is_empty());
        assert_eq!(in_admin("// tidy: sql —\nf(\"delete from t\")"), [2]);
        assert_eq!(in_admin("// tidy: sql — too far\n\n\nf(\"delete from t\")"), [4]);
    }
}
