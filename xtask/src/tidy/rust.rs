//! Rules for Rust files: documented, of bounded size, nothing switched off.

use super::lexer::Source;
use super::{File, Problem};

/// The longest line, in columns. rustfmt wraps code, but neither comments nor strings.
const MAX_COLUMNS: usize = 100;

/// The longest file under `src`, in lines before its tests. A reader should be able to keep it in
/// mind.
const MAX_FILE_LINES: usize = 500;

/// The longest function, in lines. It should fit on a screen.
const MAX_FUNCTION_LINES: usize = 70;

pub(super) fn check(file: &File, source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !file.text.starts_with("//!") {
        let message = "a file begins with `//!` and says what it is, how it fails, what holds";
        problems.push(file.problem(1, message));
    }
    for (number, line) in file.lines() {
        let columns = line.chars().count();
        if columns > MAX_COLUMNS {
            let message = format!("the line has {columns} columns; {MAX_COLUMNS} are allowed");
            problems.push(file.problem(number, message));
        }
    }
    for (number, line) in (1..).zip(source.code.lines()) {
        if line.contains(concat!("dbg", "!")) {
            problems.push(file.problem(number, "a debugging print was left in"));
        }
        if line.contains(concat!("#[ign", "ore")) {
            problems.push(file.problem(number, "a test is switched off: mend or delete it"));
        }
    }
    problems.extend(file_size(file));
    problems.extend(function_sizes(file, source));
    problems
}

fn file_size(file: &File) -> Option<Problem> {
    if !file.path.split('/').any(|part| part == "src") {
        return None;
    }
    let is_tests = |(_, line): &(usize, &str)| *line == "#[cfg(test)]";
    let lines = file.lines().take_while(|line| !is_tests(line)).count();
    let message =
        || format!("the file has {lines} lines without its tests; {MAX_FILE_LINES} are allowed");
    (lines > MAX_FILE_LINES).then(|| file.problem(0, message()))
}

fn function_sizes(file: &File, source: &Source) -> Vec<Problem> {
    functions(&source.code)
        .into_iter()
        .filter(|function| function.lines > MAX_FUNCTION_LINES)
        .map(|Function { name, line, lines }| {
            let message =
                format!("function `{name}` has {lines} lines; {MAX_FUNCTION_LINES} are allowed");
            file.problem(line, message)
        })
        .collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line: usize,
    /// From the line with `fn` to that with the closing brace.
    lines: usize,
}

/// All functions with a body, in code without strings and comments.
fn functions(code: &str) -> Vec<Function> {
    code.match_indices("fn ")
        .filter(|(at, _)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        .filter_map(|(at, _)| {
            let rest = &code[at + 3..];
            let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '#';
            let name: String = rest.chars().take_while(|c| is_name(*c)).collect();
            let length = function_length(rest)?;
            let lines = 1 + code[at..at + 3 + length].matches('\n').count();
            let line = 1 + code[..at].matches('\n').count();
            (!name.is_empty()).then_some(Function { name, line, lines })
        })
        .collect()
}

/// The length from behind `fn` to the end of the body; `None` when there is no body.
fn function_length(code: &str) -> Option<usize> {
    let (mut brackets, mut braces) = (0_usize, 0_usize);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            // A semicolon inside brackets is that of an array, `[u8; 4]`.
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' if braces <= 1 => return (braces == 1).then_some(at),
            '}' => braces -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{file, told};

    fn problems(path: &str, text: &str) -> Vec<String> {
        told(&check(&file(path, text), &Source::of(text)))
    }

    fn function_of(lines: usize) -> String {
        format!("//! Docs.\nfn long() {{\n{}}}\n", "    f(\"}\"); // }\n".repeat(lines - 2))
    }

    #[test]
    fn a_file_without_documentation_fails() {
        assert!(problems("a.rs", "fn f() {}\n")[0].starts_with("1: a file begins with `//!`"));
        assert!(problems("a.rs", "//! Docs.\nfn f() {}\n").is_empty());
    }

    #[test]
    fn a_line_that_is_too_long_fails() {
        let text = format!("//! Docs.\n// {}\n", "é".repeat(98));
        assert_eq!(problems("a.rs", &text), ["2: the line has 101 columns; 100 are allowed"]);
    }

    #[test]
    fn a_debugging_print_fails_but_not_in_a_comment() {
        let bad = format!("//! Docs.\nfn f() {{ {}!(1); }}\n", "dbg");
        assert_eq!(problems("a.rs", &bad), ["2: a debugging print was left in"]);
        assert!(problems("a.rs", &format!("//! No {}!() here.\n", "dbg")).is_empty());
    }

    #[test]
    fn a_test_that_is_switched_off_fails() {
        for attribute in ["ignore]", "ignore = \"slow\"]"] {
            let bad = format!("//! Docs.\n#[{attribute}\nfn f() {{}}\n");
            let expected = ["2: a test is switched off: mend or delete it"];
            assert_eq!(problems("a.rs", &bad), expected);
        }
    }

    #[test]
    fn a_long_file_fails_under_src_but_its_tests_do_not_count() {
        let text = |lines: usize| format!("//! Docs.\n{}", "// x\n".repeat(lines - 1));
        let expected = "0: the file has 501 lines without its tests; 500 are allowed";
        assert_eq!(problems("a/src/b.rs", &text(501)), [expected]);
        assert!(problems("a/tests/b.rs", &text(501)).is_empty());
        let with_tests = format!("{}#[cfg(test)]\n{}", text(500), text(300));
        assert!(problems("a/src/b.rs", &with_tests).is_empty());
    }

    #[test]
    fn a_long_function_fails_and_braces_in_strings_and_comments_do_not_count() {
        let expected = ["2: function `long` has 71 lines; 70 are allowed"];
        assert_eq!(problems("a.rs", &function_of(71)), expected);
        assert!(problems("a.rs", &function_of(70)).is_empty());
    }

    #[test]
    fn functions_are_found_wherever_they_are() {
        let code = "trait T { fn no_body(a: [u8; 2]); fn body(&self) {\n} }\n\
                    impl A { async fn inner<F: Fn(u8)>(f: F) -> [u8; 4]\n{\n{ } } }\n\
                    type P = fn (u8); struct S { f: fn(u8) }";
        let found: Vec<_> =
            functions(code).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("body".to_owned(), 1, 2), ("inner".to_owned(), 3, 3)]);
    }
}
