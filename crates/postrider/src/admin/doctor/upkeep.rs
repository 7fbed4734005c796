//! What keeps the tables in shape: privileges, autovacuum, partitions.
//!
//! How it fails: it does not; it judges what was asked. Invariant: advice is a statement to run, or
//! says who runs it.

use super::{Finding, duration, repair, some};
use crate::Schema;
use crate::store::{Lacking, NetRows, Vacuumed};

/// Fewer dead rows than this are no burden, however small the table's own threshold is.
const DEAD_ROWS_FEW: i64 = 50_000;
/// So many times the dead rows at which autovacuum comes mean that it is late,
const LATE: i64 = 5;
/// unless it has been here within this time,
const LATELY_MS: i64 = 5 * 60 * 1000;
/// and so many that it comes and does not get them away.
const IN_VAIN: i64 = 50;

pub(super) fn privileges(lacking: &[Lacking], role: &str) -> Finding {
    let Some(first) = lacking.first() else {
        return Finding::ok("privileges", format!("{role} may do all that an engine does"));
    };
    let listed: Vec<String> =
        lacking.iter().map(|lack| format!("{} on {}", lack.privileges, lack.object)).collect();
    let grants: Vec<String> = lacking
        .iter()
        .map(|lack| format!("grant {} on {} to {}", lack.privileges, lack.object, lack.role))
        .collect();
    let found = format!("{} may not run an engine: it lacks {}", first.role, some(&listed, "; "));
    let advice = format!("as the owner of the schema: {}", grants.join("; "));
    Finding::problem("privileges", found, advice).number("lacking", lacking.len())
}

/// One finding for each table that is not vacuumed as it should be.
pub(super) fn autovacuum(tables: &[Vacuumed], schema: &Schema) -> Vec<Finding> {
    if tables.iter().any(|table| !table.server_enabled) {
        let advice = "set autovacuum and track_counts to on and reload the server: dead rows of \
                      finished work pile up without it";
        return vec![Finding::problem("autovacuum", "it is off for the whole server", advice)];
    }
    let findings: Vec<Finding> =
        tables.iter().filter_map(|table| neglected(table, schema)).collect();
    if !findings.is_empty() {
        return findings;
    }
    let most = tables.iter().max_by_key(|table| table.dead);
    let found = match most.filter(|table| table.dead > 0) {
        Some(table) => format!(
            "keeps up; {} has the most dead rows, {}, and was vacuumed {}",
            table.table,
            table.dead,
            when(table.vacuumed_ms)
        ),
        None => "keeps up; there are no dead rows".to_owned(),
    };
    let finding = Finding::ok("autovacuum", found);
    vec![finding.number("dead_rows_max", most.map_or(0, |table| table.dead))]
}

fn neglected(table: &Vacuumed, schema: &Schema) -> Option<Finding> {
    let whole = format!("{}.{}", schema.quoted(), table.table);
    let (name, dead) = (&table.table, table.dead);
    let bearable = table.threshold.max(DEAD_ROWS_FEW / LATE);
    let lately = table.vacuumed_ms.is_some_and(|ms| ms < LATELY_MS);
    let last = when(table.vacuumed_ms);
    let finding = if !table.enabled {
        let found = format!("it is off for {name}, which has {dead} dead rows, vacuumed {last}");
        let advice = format!("run: alter table {whole} reset (autovacuum_enabled)");
        Finding::problem("autovacuum", found, advice)
    } else if dead > bearable.saturating_mul(IN_VAIN) {
        let found = format!("does not keep up with {name}: {dead} dead rows, vacuumed {last}");
        let advice = "see who holds the vacuum horizon; if nobody does, raise \
                      autovacuum_max_workers or lower autovacuum_naptime";
        Finding::warning("autovacuum", found, advice)
    } else if dead > bearable.saturating_mul(LATE) && !lately {
        let found = format!("does not come to {name}: {dead} dead rows, vacuumed {last}");
        let advice = format!(
            "run: vacuum {whole}; see whether a lock on it or too few autovacuum_max_workers keep \
             autovacuum away"
        );
        Finding::warning("autovacuum", found, advice)
    } else {
        return None;
    };
    let finding = finding.number("table", name.as_str()).number("dead_rows", dead);
    Some(match table.vacuumed_ms {
        Some(ms) => finding.number("vacuumed_ms_ago", ms),
        None => finding,
    })
}

fn when(vacuumed_ms: Option<i64>) -> String {
    vacuumed_ms.map_or_else(|| "never".to_owned(), |ms| format!("{} ago", duration(ms)))
}

pub(super) fn partitions(tables: &[NetRows], schema: &Schema) -> Finding {
    let Some(least) = tables.iter().min_by_key(|table| table.days_ahead) else {
        return Finding::problem("partitions", "there are none", repair(schema));
    };
    let days = least.days_ahead;
    let found = match days {
        i32::MIN..0 => format!("today's is missing for {}", least.table),
        days => format!("made {days} days ahead"),
    };
    let advice = "a running engine makes them: postrider serve";
    let finding = match days {
        i32::MIN..1 => Finding::problem("partitions", found, advice),
        1..3 => Finding::warning("partitions", found, advice),
        _ => Finding::ok("partitions", found),
    };
    finding.number("days_ahead", days)
}

pub(super) fn net(tables: &[NetRows]) -> Finding {
    let caught: Vec<&NetRows> = tables.iter().filter(|table| table.in_net.at_least > 0).collect();
    let rows: i64 = caught.iter().map(|table| table.in_net.at_least).sum();
    let listed: Vec<String> =
        caught.iter().map(|table| format!("{}: {}", table.table, table.in_net)).collect();
    let finding = if caught.is_empty() {
        Finding::ok("default partitions", "empty")
    } else {
        let found = format!("hold rows of {}", listed.join(", "));
        let advice = "kept events (owed, poisoned, unfinished) belong there; anything else means \
                      that partitions were made too late";
        Finding::warning("default partitions", found, advice)
    };
    finding.number("rows", rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::Level;

    fn table(dead: i64, vacuumed_ms: Option<i64>) -> Vacuumed {
        let (enabled, server_enabled, threshold) = (true, true, 20_000);
        Vacuumed { table: "job".into(), dead, vacuumed_ms, enabled, server_enabled, threshold }
    }

    #[test]
    fn dead_rows_are_a_warning_when_nobody_came_lately_or_when_it_was_in_vain() {
        let level = |dead, vacuumed_ms| {
            autovacuum(&[table(dead, vacuumed_ms)], &Schema::default())[0].level
        };
        assert_eq!(level(100_000, None), Level::Ok);
        assert_eq!(level(100_001, None), Level::Warning);
        assert_eq!(level(100_001, Some(LATELY_MS - 1)), Level::Ok);
        assert_eq!(level(1_000_001, Some(0)), Level::Warning);
    }

    #[test]
    fn a_small_threshold_does_not_make_a_few_dead_rows_many() {
        let small = Vacuumed { threshold: 50, ..table(DEAD_ROWS_FEW, None) };
        assert_eq!(autovacuum(&[small], &Schema::default())[0].level, Level::Ok);
    }
}
