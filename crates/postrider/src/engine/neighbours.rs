//! Whether the other relays on this host are alive.
//!
//! A supervisor may restart a process within a second of its death, long before its session misses
//! a renewal. What killed it may be an event that is next in line, so the relay that starts wants
//! to know. A session is named after its host and process id; a process that is gone gives it away.
//!
//! How it fails: where it cannot tell, the answer is that it may have died, which costs one careful
//! batch. Invariant: a relay of this very process is never taken for dead while it runs.

use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

/// The sessions of the engines in this process.
static OURS: Mutex<Vec<Uuid>> = Mutex::new(Vec::new());

/// Marks a session as one of this process for as long as it is kept.
#[derive(Debug)]
pub(crate) struct Presence(Uuid);

impl Presence {
    pub(crate) fn of(session: Uuid) -> Self {
        OURS.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        Self(session)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        OURS.lock().unwrap_or_else(PoisonError::into_inner).retain(|session| *session != self.0);
    }
}

/// Whether one of the open sessions of this host may belong to a process that died.
pub(crate) fn may_have_died(neighbours: &[(Uuid, String)]) -> bool {
    let ours = OURS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    neighbours.iter().any(|(session, name)| !ours.contains(session) && !is_running(name))
}

/// Whether the process that a session is named after runs. A process id that was used again, as the
/// first one of a container is, is our own: then the former owner is gone.
fn is_running(name: &str) -> bool {
    let Some(id) = name.split_once(':').and_then(|(_, id)| id.parse::<u32>().ok()) else {
        return false;
    };
    id != std::process::id() && !is_gone(id)
}

/// Whether there is no such process any more, or only its exit code that nobody has asked for yet.
fn is_gone(id: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { return true };
    // The state follows the name of the program, which is in parentheses and may hold some itself.
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    state.starts_with(['Z', 'X'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(name: &str) -> [(Uuid, String); 1] {
        [(Uuid::new_v4(), name.to_owned())]
    }

    #[test]
    fn a_process_that_is_gone_may_have_died_and_one_that_runs_has_not() {
        // The largest process id that Linux gives out is smaller.
        assert!(may_have_died(&neighbour("here:4194305")));
        assert_eq!(may_have_died(&neighbour("here:1")), !cfg!(target_os = "linux"));
    }

    #[test]
    fn a_name_without_a_process_id_tells_nothing() {
        assert!(may_have_died(&neighbour("here:worker")));
        assert!(may_have_died(&neighbour("here")));
    }

    #[test]
    fn our_own_process_id_under_another_session_was_used_again_unless_we_run_that_one_too() {
        let named = neighbour(&format!("here:{}", std::process::id()));
        assert!(may_have_died(&named));
        let _presence = Presence::of(named[0].0);
        assert!(!may_have_died(&named));
    }
}
