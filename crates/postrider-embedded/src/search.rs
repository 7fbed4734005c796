//! Where to look for PostgreSQL's programs.
//!
//! Only the order and the places are here; whether a place serves is for
//! [`crate::Binaries::at`] to say. Distributions keep the server's programs out of `PATH`, each in
//! its own place, with several versions side by side; the highest version comes first.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory which may hold PostgreSQL's programs, and why it is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) why: &'static str,
    pub(crate) directory: PathBuf,
}

/// All places to look at, best first.
pub(crate) fn places() -> Vec<Place> {
    let mut places = Vec::new();
    let mut add = |why, directories: Vec<PathBuf>| {
        for directory in directories {
            let known = places.iter().any(|place: &Place| place.directory == directory);
            if !known {
                places.push(Place { why, directory });
            }
        }
    };
    add("pg_config --bindir", pg_config().into_iter().collect());
    add("PATH", on_path());
    add("Debian, Ubuntu", versioned("/usr/lib/postgresql", "", "bin"));
    add("Fedora, RHEL", versioned("/usr", "pgsql-", "bin"));
    add("built from source", existing("/usr/local/pgsql/bin"));
    add("Homebrew", versioned("/opt/homebrew/opt", "postgresql", "bin"));
    add("Homebrew", versioned("/usr/local/opt", "postgresql", "bin"));
    let postgres_app = "/Applications/Postgres.app/Contents/Versions";
    add("Postgres.app", versioned(postgres_app, "", "bin"));
    places
}

/// What `pg_config` says. It comes with the development files of the client library, too, so the
/// directory need not hold a server.
fn pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").stderr(Stdio::null()).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    let line = line.trim();
    (output.status.success() && !line.is_empty()).then(|| PathBuf::from(line))
}

/// Directories in `PATH` with an `initdb` in them. Links are followed, because a link often leads
/// to the real directory where the other programs are.
fn on_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|directory| directory.join("initdb").is_file())
        .map(|directory| {
            let real = directory.join("initdb").canonicalize().ok();
            real.as_deref().and_then(Path::parent).map_or(directory, Path::to_path_buf)
        })
        .collect()
}

fn existing(directory: &str) -> Vec<PathBuf> {
    Some(PathBuf::from(directory)).filter(|path| path.is_dir()).into_iter().collect()
}

/// Directories `parent/PREFIX*/sub` which exist, the one with the highest number first.
fn versioned(parent: impl AsRef<Path>, prefix: &str, sub: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let number = version_in(name.strip_prefix(prefix)?);
            Some((number, entry.path().join(sub)))
        })
        .filter(|(_, directory)| directory.is_dir())
        .collect();
    found.sort_by_key(|(number, directory)| (Reverse(*number), directory.clone()));
    found.into_iter().map(|(_, directory)| directory).collect()
}

/// The first number in a name such as "15", "@16" or "9.6"; 0 when there is none.
fn version_in(name: &str) -> u32 {
    let digits: String =
        name.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_comes_first() {
        let parent =
            std::env::temp_dir().join(format!("postrider-search-{}", crate::random::hex(6)));
        for name in ["9.6", "15", "18", "readme"] {
            std::fs::create_dir_all(parent.join(name).join("bin")).unwrap();
        }
        std::fs::create_dir_all(parent.join("17")).unwrap();
        let names: Vec<_> = versioned(&parent, "", "bin")
            .iter()
            .map(|found| found.strip_prefix(&parent).unwrap().display().to_string())
            .collect();
        std::fs::remove_dir_all(&parent).unwrap();
        assert_eq!(names, ["18/bin", "15/bin", "9.6/bin", "readme/bin"]);
    }

    #[test]
    fn numbers_are_found_in_the_names_that_packagers_choose() {
        assert_eq!(version_in("@16"), 16);
        assert_eq!(version_in("14"), 14);
        assert_eq!(version_in("latest"), 0);
    }
}
