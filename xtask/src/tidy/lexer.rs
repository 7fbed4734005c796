//! Tells code, strings and comments of a Rust file apart.
//!
//! It is not a parser: it knows just enough of the language that braces in a string do not count as
//! braces, and words in a comment not as code. Invariant: [`Source::code`] has as many lines as the
//! file, so that line numbers agree.

/// A Rust file, taken apart.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The file, with spaces in place of comments and of what is inside quotes.
    pub(super) code: String,
    pub(super) strings: Vec<Piece>,
    pub(super) comments: Vec<Piece>,
}

/// A string literal without its quotes, or a comment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The line it begins in, from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

impl Source {
    /// Takes a file apart. A literal that does not end goes on to the end of the file.
    pub(super) fn of(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut lexer = Lexer { rest: &chars, line: 1, source: Self::default() };
        while !lexer.rest.is_empty() {
            lexer.step();
        }
        lexer.source
    }
}

struct Lexer<'a> {
    rest: &'a [char],
    line: usize,
    source: Source,
}

impl Lexer<'_> {
    /// Takes the next piece of any kind.
    fn step(&mut self) {
        match self.rest {
            ['/', '/', ..] => self.comment(line_comment(self.rest)),
            ['/', '*', ..] => self.comment(block_comment(self.rest)),
            ['"', ..] => self.string(1, quoted(&self.rest[1..], '"'), 1),
            ['\'', '\\', ..] => self.hide(2 + quoted(&self.rest[1..], '\'')),
            ['\'', _, '\'', ..] => self.hide(3),
            [first, ..] if first.is_alphanumeric() || *first == '_' => self.word(),
            _ => self.keep(1),
        }
    }

    /// Takes a word, and the raw string behind it if it is the prefix of one.
    fn word(&mut self) {
        let is_word = |c: &&char| c.is_alphanumeric() || **c == '_';
        let length = self.rest.iter().take_while(is_word).count();
        let word: String = self.rest[..length].iter().collect();
        self.keep(length);
        let hashes = self.rest.iter().take_while(|c| **c == '#').count();
        if matches!(word.as_str(), "r" | "br" | "cr") && self.rest.get(hashes) == Some(&'"') {
            let inside = raw(&self.rest[hashes + 1..], hashes);
            self.string(hashes + 1, inside, hashes + 1);
        }
    }

    /// Takes a string literal: the opening, what is inside, and the closing.
    fn string(&mut self, opening: usize, inside: usize, closing: usize) {
        self.keep(opening);
        let text = self.rest[..inside].iter().collect();
        self.source.strings.push(Piece { line: self.line, text });
        self.hide(inside);
        self.keep(closing.min(self.rest.len()));
    }

    fn comment(&mut self, length: usize) {
        let text = self.rest[..length].iter().collect();
        self.source.comments.push(Piece { line: self.line, text });
        self.hide(length);
    }

    /// Moves on, copying the characters to the code.
    fn keep(&mut self, length: usize) {
        self.advance(length, |c| c);
    }

    /// Moves on, leaving spaces in the code.
    fn hide(&mut self, length: usize) {
        self.advance(length.min(self.rest.len()), |c| if c == '\n' { c } else { ' ' });
    }

    fn advance(&mut self, length: usize, shown: impl Fn(char) -> char) {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.iter().filter(|c| **c == '\n').count();
        self.source.code.extend(taken.iter().map(|c| shown(*c)));
        self.rest = rest;
    }
}

/// The length of a comment up to the end of the line.
fn line_comment(text: &[char]) -> usize {
    text.iter().take_while(|c| **c != '\n').count()
}

/// The length of a block comment, which may contain others.
fn block_comment(text: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < text.len() {
        match text[at..] {
            ['/', '*', ..] => (at, depth) = (at + 2, depth + 1),
            ['*', '/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(text.len())
}

/// The length of what is inside quotes, of which only the closing one is still to come.
fn quoted(text: &[char], quote: char) -> usize {
    let mut at = 0;
    while at < text.len() && text[at] != quote {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    at.min(text.len())
}

/// The length of what is inside a raw string, which ends with a quote and as many hashes.
fn raw(text: &[char], hashes: usize) -> usize {
    let is_end = |at: &usize| {
        text[*at] == '"' && text[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes
    };
    (0..text.len()).find(is_end).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(text: &str) -> Vec<String> {
        Source::of(text).strings.into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn strings_of_all_kinds_are_found() {
        assert_eq!(strings(r#"f("a", b"b\"c", c"d")"#), ["a", r#"b\"c"#, "d"]);
        assert_eq!(strings("r\"a\\\" + r#\"b\"c\"# + br##\"d\"#e\"##"), ["a\\", "b\"c", "d\"#e"]);
    }

    #[test]
    fn words_that_end_like_a_prefix_are_no_prefix() {
        assert_eq!(strings("for\"a\" r#type"), ["a"]);
    }

    #[test]
    fn characters_are_no_strings_and_lifetimes_no_characters() {
        let source = Source::of(r#"fn f<'a>(c: &'a str) { ['"', '{', '\'', '\u{7b}', 'b'] }"#);
        assert!(source.strings.is_empty());
        assert_eq!(source.code.matches('{').count(), 1);
        assert_eq!(source.code.matches("'a").count(), 2);
    }

    #[test]
    fn comments_are_found_and_nest() {
        let source = Source::of("a // \"b\"\n/* c /* d */ \" */ e");
        assert!(source.strings.is_empty());
        assert_eq!(source.comments[0], Piece { line: 1, text: "// \"b\"".to_owned() });
        assert_eq!(source.comments[1], Piece { line: 2, text: "/* c /* d */ \" */".to_owned() });
        assert_eq!(source.code.split_whitespace().collect::<String>(), "ae");
    }

    #[test]
    fn lines_keep_their_numbers() {
        let text = "let a = \"1\n2\";\n/* 3\n4 */ let b = \"5\";\n";
        let source = Source::of(text);
        assert_eq!(source.code.lines().count(), text.lines().count());
        assert_eq!(source.strings[1], Piece { line: 4, text: "5".to_owned() });
    }

    #[test]
    fn what_does_not_end_goes_on_to_the_end() {
        for text in ["\"abc", "r#\"abc\"", "/* abc", "'\\", "\"a\\", "/*/"] {
            assert_eq!(Source::of(text).code.chars().count(), text.chars().count(), "{text}");
        }
    }
}
