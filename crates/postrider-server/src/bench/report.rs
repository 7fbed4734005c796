//! What a bench prints: ratios against their bars, and the raw figures of each round.
//!
//! How it fails: it does not. Invariant: the JSON line is the last line on standard output.

use serde::Serialize;
use serde_json::Value;

/// Whether more or less of a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// One figure against its bar.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Metric {
    name: &'static str,
    value: f64,
    bar: f64,
    better: Better,
    met: bool,
}

impl Metric {
    /// A metric of which more is better.
    pub(crate) fn at_least(name: &'static str, value: f64, bar: f64) -> Self {
        Self { name, value, bar, better: Better::Higher, met: value >= bar }
    }

    /// A metric of which less is better.
    pub(crate) fn at_most(name: &'static str, value: f64, bar: f64) -> Self {
        Self { name, value, bar, better: Better::Lower, met: value <= bar }
    }
}

/// The outcome of one bench.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) name: &'static str,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) rounds: Vec<Value>,
}

impl Report {
    /// Whether every bar is met.
    pub(crate) fn met(&self) -> bool {
        self.metrics.iter().all(|metric| metric.met)
    }

    /// Prints the report, as one JSON line or as a table.
    pub(crate) fn print(&self, json: bool) {
        if json {
            let line =
                serde_json::to_string(self).expect("a report has only finite numbers and texts");
            println!("{line}");
            return;
        }
        for round in &self.rounds {
            println!("  {round}");
        }
        for metric in &self.metrics {
            let (sign, word) = match metric.better {
                Better::Higher => ("≥", if metric.met { "met" } else { "NOT met" }),
                Better::Lower => ("≤", if metric.met { "met" } else { "NOT met" }),
            };
            println!("{:32} {:>10.3}   {sign} {:<8} {word}", metric.name, metric.value, metric.bar);
        }
    }
}

/// The median of some figures; zero of none.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => 0.0,
        length if length % 2 == 1 => figures[length / 2],
        length => f64::midpoint(figures[length / 2 - 1], figures[length / 2]),
    }
}

/// The value below which `part` (0.0 to 1.0) of the figures lie.
pub(crate) fn percentile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let index = ((sorted.len() as f64 * part).ceil() as usize).saturating_sub(1).min(last);
    sorted.get(index).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles_are_those_of_the_textbook() {
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median([4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert!((percentile(&hundred, 0.99) - 99.0).abs() < f64::EPSILON);
        assert!((percentile(&hundred, 0.5) - 50.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_bar_that_is_not_met_shows() {
        let metrics = vec![Metric::at_least("a", 0.5, 0.6), Metric::at_most("b", 1.0, 2.0)];
        assert!(!Report { name: "x", metrics, rounds: Vec::new() }.met());
    }
}
