//! Makes the database cluster of a private server with `initdb`.
//!
//! The cluster is made under another name and renamed when complete. Whatever interrupts us, the
//! next start finds either a whole cluster or none.

use crate::directory::Directory;
use crate::options::ServerOptions;
use crate::{Binaries, StartError, random};
use std::process::Command;

/// The superuser of every private server.
pub(crate) const SUPERUSER: &str = "postrider";

/// Makes the cluster unless there is one, and returns the superuser's password.
///
/// # Errors
///
/// [`StartError::OtherVersion`] when the cluster there is of another major version,
/// [`StartError::Init`] when initdb fails, and [`StartError::Io`].
pub(crate) fn ensure_cluster(
    directory: &Directory,
    binaries: &Binaries,
    options: &ServerOptions,
) -> Result<String, StartError> {
    let Some(data_major) = directory.data_major() else {
        return create_cluster(directory, binaries, options);
    };
    if data_major != binaries.version().major().to_string() {
        return Err(StartError::OtherVersion {
            directory: directory.path().to_path_buf(),
            data_major,
            found: binaries.version(),
        });
    }
    directory.read_password()
}

fn create_cluster(
    directory: &Directory,
    binaries: &Binaries,
    options: &ServerOptions,
) -> Result<String, StartError> {
    let making = directory.data_in_the_making();
    if making.exists() {
        std::fs::remove_dir_all(&making)
            .map_err(StartError::io(format!("remove the unfinished {}", making.display())))?;
    }
    let password = random::hex(16);
    directory.write_password(&password)?;
    run_initdb(directory, binaries, options)?;
    let data = directory.data();
    std::fs::rename(&making, &data).map_err(StartError::io(format!(
        "rename {} to {}",
        making.display(),
        data.display()
    )))?;
    Ok(password)
}

fn run_initdb(
    directory: &Directory,
    binaries: &Binaries,
    options: &ServerOptions,
) -> Result<(), StartError> {
    let mut command = Command::new(binaries.initdb());
    command
        .arg("--pgdata")
        .arg(directory.data_in_the_making())
        .arg("--pwfile")
        .arg(directory.password_file())
        .args(["--username", SUPERUSER, "--auth", "scram-sha-256"])
        .args(["--encoding", "UTF8", "--locale", "C"]);
    if !options.durable {
        command.arg("--no-sync");
    }
    prepare(&mut command, directory);
    let output =
        command.output().map_err(StartError::io(format!("run {}", binaries.initdb().display())))?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(StartError::Init { directory: directory.path().to_path_buf(), output: text })
}

/// Makes `command` run as the server's account, at a place which that account can enter, and free
/// of the variables by which PostgreSQL's programs would take their settings from our environment.
pub(crate) fn prepare(command: &mut Command, directory: &Directory) {
    directory.account().apply(command);
    command.current_dir(directory.path());
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
    // Our search for the reason in the server's log relies on English.
    command.env("LC_ALL", "C");
}
