//! The verdict: rows of the shop against rows of Postrider and of the subscribers.
//!
//! How it fails: an error of the database. Invariant: everything in it comes from one query over
//! tables, so that it can be taken again later on what a run kept; no number of the running demo
//! goes into it.

use serde::Serialize;
use tokio_postgres::Client;

use super::failure::Failure;
use super::view::thousands;

/// What the query found. The fields are the JSON output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Verdict {
    /// Events of committed transactions.
    recorded: i64,
    /// Events of transactions that were rolled back.
    rolled_back: i64,
    fanned_out: i64,
    jobs: i64,
    handled: i64,
    kills: i64,
    running_at_kill: i64,
    /// Jobs that were running at a kill and were completed by another process.
    rescued: i64,
    lost: i64,
    duplicate_fanouts: i64,
    phantom: i64,
    ledger_mismatch: i64,
    /// Attempts that failed and were made again.
    retries: i64,
    /// Transactions that stayed open while others passed them by, and then committed.
    late_commits: i64,
    seconds: f64,
}

impl Verdict {
    /// Asks the database.
    pub(super) async fn take(client: &Client) -> Result<Self, Failure> {
        let row = client.query_one(include_str!("sql/verdict.sql"), &[]).await?;
        let seconds: f64 = row.try_get("seconds")?;
        Ok(Self {
            recorded: row.try_get("recorded")?,
            rolled_back: row.try_get("rolled_back")?,
            fanned_out: row.try_get("fanned_out")?,
            jobs: row.try_get("jobs")?,
            handled: row.try_get("handled")?,
            kills: row.try_get("kills")?,
            running_at_kill: row.try_get("running_at_kill")?,
            rescued: row.try_get("rescued")?,
            lost: row.try_get("lost")?,
            duplicate_fanouts: row.try_get("duplicate_fanouts")?,
            phantom: row.try_get("phantom")?,
            ledger_mismatch: row.try_get("ledger_mismatch")?,
            retries: row.try_get("retries")?,
            late_commits: row.try_get("late_commits")?,
            seconds: (seconds * 100.0).round() / 100.0,
        })
    }

    /// What speaks against it; empty when all is well.
    pub(super) fn objections(&self, chaos: bool) -> Vec<String> {
        let mut objections = Vec::new();
        let mut object = |is_bad: bool, text: String| {
            if is_bad {
                objections.push(text);
            }
        };
        object(self.lost != 0, format!("{} committed events did not arrive", self.lost));
        let twice = self.duplicate_fanouts;
        object(twice != 0, format!("{twice} fan-outs happened more than once"));
        object(self.phantom != 0, format!("{} rolled-back events left traces", self.phantom));
        let mismatch = self.ledger_mismatch;
        object(mismatch != 0, format!("the ledger is wrong about {mismatch} orders"));
        let (fanned, recorded) = (self.fanned_out, self.recorded);
        object(fanned != recorded, format!("{fanned} of {recorded} events were fanned out"));
        if chaos {
            object(
                self.running_at_kill == 0,
                "no worker was killed while it had jobs running: use more events".into(),
            );
            object(
                self.running_at_kill > 0 && self.rescued == 0,
                "no job of a killed worker was completed by another".into(),
            );
        }
        objections
    }

    /// The verdict for a person.
    pub(super) fn text(&self, chaos: bool) -> String {
        let n = thousands;
        let mut text = format!(
            "\nVerdict after {:.1} s, from rows compared, not from Postrider's counters\n\n",
            self.seconds
        );
        let facts = [
            (n(self.recorded), "events committed by the shop"),
            (n(self.rolled_back), "events rolled back by it"),
            (n(self.late_commits), "transactions committed late, after others had passed them"),
            (n(self.fanned_out), "events fanned out"),
            (n(self.handled), "jobs handled"),
            (n(self.retries), "failed attempts, all made again"),
            (n(self.kills), "worker processes killed by SIGKILL"),
            (n(self.running_at_kill), "jobs were running in them"),
            (n(self.rescued), "of these were completed by another process"),
        ];
        let checks = [
            (self.lost, "lost: committed, but a subscriber never handled it"),
            (self.phantom, "phantom: rolled back, but found anyway"),
            (self.duplicate_fanouts, "fanned out twice"),
            (self.ledger_mismatch, "ledger entries missing, doubled or of a wrong amount"),
        ];
        for (number, what) in facts {
            text.push_str(&format!("  {number:>9}  {what}\n"));
        }
        text.push('\n');
        for (number, what) in checks {
            let mark = if number == 0 { "ok " } else { "BAD" };
            text.push_str(&format!("  {mark} {:>5}  {what}\n", n(number)));
        }
        match &self.objections(chaos)[..] {
            [] => text.push_str("\nNothing was lost, nothing was invented, nothing came twice.\n"),
            some => text.push_str(&format!("\nNot as promised: {}.\n", some.join("; "))),
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Verdict {
        Verdict {
            recorded: 10,
            rolled_back: 2,
            fanned_out: 10,
            jobs: 25,
            handled: 25,
            kills: 1,
            running_at_kill: 3,
            rescued: 3,
            lost: 0,
            duplicate_fanouts: 0,
            phantom: 0,
            ledger_mismatch: 0,
            retries: 1,
            late_commits: 1,
            seconds: 1.5,
        }
    }

    #[test]
    fn each_broken_promise_is_an_objection() {
        assert_eq!(good().objections(true), Vec::<String>::new());
        for bad in [
            Verdict { lost: 1, ..good() },
            Verdict { duplicate_fanouts: 1, ..good() },
            Verdict { phantom: 1, ..good() },
            Verdict { ledger_mismatch: 1, ..good() },
            Verdict { fanned_out: 9, ..good() },
        ] {
            assert_eq!(bad.objections(false).len(), 1, "{bad:?}");
            assert!(bad.text(false).contains("Not as promised"));
        }
    }

    #[test]
    fn chaos_that_hit_nothing_proves_nothing() {
        for bad in [
            Verdict { kills: 0, running_at_kill: 0, rescued: 0, ..good() },
            Verdict { rescued: 0, ..good() },
        ] {
            assert_eq!(bad.objections(true).len(), 1);
            assert_eq!(bad.objections(false), Vec::<String>::new());
        }
    }
}
