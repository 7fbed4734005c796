//! `cargo xtask tidy`: the rules of this project which no other tool checks.
//!
//! A rule that matters is code. Each rule is a function from a file (or from the manifests) to the
//! problems in it, with a test that shows it fail on a bad sample. Rules have no exceptions but
//! one: SQL in a Rust string is accepted after a comment `// tidy: sql — REASON`.

mod edges;
mod lexer;
mod rust;
mod sql;
mod text;

use crate::process::{announce, cargo};
use anyhow::{Context as _, bail};
use std::path::Path;
use tokio::process::Command;

/// One file, as the rules see it.
#[derive(Debug)]
struct File {
    /// Relative to the root of the repository, with `/` between the parts.
    path: String,
    text: String,
}

/// Something to mend.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    path: String,
    /// From 1; 0 when the problem is of the whole file.
    line: usize,
    message: String,
}

impl File {
    fn problem(&self, line: usize, message: impl Into<String>) -> Problem {
        Problem { path: self.path.clone(), line, message: message.into() }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Checks every file of the repository that git does not ignore, and the manifests.
///
/// # Errors
///
/// When there is a problem; each is printed as `FILE:LINE: MESSAGE`.
pub(crate) async fn run() -> anyhow::Result<()> {
    announce("tidy");
    let files = files().await?;
    let mut problems: Vec<Problem> = files.iter().flat_map(check).collect();
    problems.extend(edges::check(&metadata().await?));
    problems.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for Problem { path, line, message } in &problems {
        eprintln!("{path}:{line}: {message}");
    }
    match problems.len() {
        0 => {
            eprintln!("{} files are tidy", files.len());
            Ok(())
        }
        count => bail!("tidy found {count} problems"),
    }
}

fn check(file: &File) -> Vec<Problem> {
    let mut problems = text::check(file);
    if file.is_rust() {
        let source = lexer::Source::of(&file.text);
        problems.extend(rust::check(file, &source));
        problems.extend(sql::check(file, &source));
    }
    problems
}

/// Reads all files that are tracked or could be, except those that are not text.
async fn files() -> anyhow::Result<Vec<File>> {
    let root = output(Command::new("git").args(["rev-parse", "--show-toplevel"])).await?;
    let root = Path::new(root.trim());
    let mut list = Command::new("git");
    list.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]).current_dir(root);
    let mut files = Vec::new();
    for path in output(&mut list).await?.split_terminator('\0') {
        let full = root.join(path);
        // A tracked file may have been deleted, and a link may lead to a directory.
        if full.is_file()
            && let Ok(text) = String::from_utf8(std::fs::read(&full)?)
        {
            files.push(File { path: path.to_owned(), text });
        }
    }
    Ok(files)
}

async fn metadata() -> anyhow::Result<serde_json::Value> {
    let mut command = cargo(["metadata", "--no-deps", "--format-version", "1"]);
    Ok(serde_json::from_str(&output(&mut command).await?)?)
}

async fn output(command: &mut Command) -> anyhow::Result<String> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let output = command.output().await.with_context(|| format!("cannot run `{program}`"))?;
    if !output.status.success() {
        bail!("`{program}` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_rule_is_applied_to_a_rust_file() {
        let text = "fn f() {}\t\nconst Q: &str = \"delete from t\";\n".to_owned();
        let file = File { path: "crates/postrider/src/admin.rs".to_owned(), text };
        let lines: Vec<usize> = check(&file).iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [1, 1, 2], "trailing space, no module docs, SQL");
    }
}

#[cfg(test)]
mod samples {
    //! Files for the tests of the rules.

    use super::{File, Problem};

    /// A file with the given path and content.
    pub(super) fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    /// The problems as "LINE: MESSAGE".
    pub(super) fn told(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect()
    }
}
