//! The numbers at one moment, as lines for a terminal and as one line for a log.
//!
//! How it fails: it does not; it is pure. Invariant: no line is wider than asked for.

use super::view::thousands;

/// The bars of the little chart, from little to much.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// How many moments the little chart shows.
pub(super) const CHART_MAX: usize = 30;

/// Everything that is shown.
#[derive(Debug, Default, Clone)]
pub(super) struct Scene {
    pub(super) seconds: f64,
    pub(super) wanted: i64,
    pub(super) recorded: i64,
    /// Recorded a second, now.
    pub(super) rate: f64,
    /// Handled a second, lately; the last is now.
    pub(super) handled_rates: Vec<f64>,
    pub(super) fanned_out: i64,
    pub(super) owed: i64,
    pub(super) pending: i64,
    pub(super) running: i64,
    pub(super) handled: i64,
    pub(super) retries: i64,
    pub(super) kills: u64,
    pub(super) running_at_kill: u64,
    pub(super) rescued: u64,
    /// Number, process id and running jobs of each worker; none while it starts.
    pub(super) workers: Vec<(usize, u32, Option<i64>)>,
}

impl Scene {
    /// The lines for a terminal.
    pub(super) fn lines(&self, has_color: bool, width: usize) -> Vec<String> {
        let rate = self.handled_rates.last().copied().unwrap_or(0.0);
        let mut lines = vec![
            (
                "recorded",
                format!(
                    "{} of {} events, {}/s",
                    thousands(self.recorded),
                    thousands(self.wanted),
                    thousands(self.rate as i64)
                ),
            ),
            (
                "fanned out",
                format!("{}, {} still owed", thousands(self.fanned_out), thousands(self.owed)),
            ),
            (
                "jobs",
                format!(
                    "{} pending, {} running, {} handled, {} attempts retried",
                    thousands(self.pending),
                    thousands(self.running),
                    thousands(self.handled),
                    thousands(self.retries)
                ),
            ),
            (
                "speed",
                format!("{:>6} jobs/s {}", thousands(rate as i64), chart(&self.handled_rates)),
            ),
        ];
        let workers: Vec<String> = self.workers.iter().map(worker).collect();
        lines.push(("workers", workers.join(" · ")));
        if self.kills > 0 {
            let (kills, running, rescued) = (self.kills, self.running_at_kill, self.rescued);
            lines.push((
                "kills",
                format!("{kills}, with {running} jobs running; {rescued} of these taken back"),
            ));
        }
        lines.iter().map(|(label, text)| line(label, text, has_color, width)).collect()
    }
}

fn worker((number, pid, running): &(usize, u32, Option<i64>)) -> String {
    match running {
        Some(running) => format!("{number}: pid {pid}, {running} running"),
        None => format!("{number}: starting"),
    }
}

/// A label and its text, cut to the width.
fn line(label: &str, text: &str, has_color: bool, width: usize) -> String {
    let label = format!("  {label:<11}");
    let room = width.saturating_sub(label.len() + 1);
    let text: String = text.chars().take(room).collect();
    match has_color {
        true => format!("\x1b[2m{label}\x1b[0m{text}"),
        false => format!("{label}{text}"),
    }
}

/// A little chart: the highest bar is the highest rate.
fn chart(rates: &[f64]) -> String {
    let most = rates.iter().copied().fold(1.0, f64::max);
    let bar = |rate: &f64| {
        let place = (rate.max(0.0) / most * (BARS.len() - 1) as f64).round();
        BARS[(place as usize).min(BARS.len() - 1)]
    };
    rates.iter().map(bar).collect()
}

/// The numbers as one line.
pub(super) fn plain_line(scene: &Scene) -> String {
    let handled_rate = scene.handled_rates.last().copied().unwrap_or(0.0);
    format!(
        "{:5.1} s: {} of {} events recorded, {} fanned out, {} owed; jobs: {} pending, {} running, \
         {} handled ({}/s), {} retried",
        scene.seconds,
        thousands(scene.recorded),
        thousands(scene.wanted),
        thousands(scene.fanned_out),
        thousands(scene.owed),
        thousands(scene.pending),
        thousands(scene.running),
        thousands(scene.handled),
        thousands(handled_rate as i64),
        thousands(scene.retries),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> Scene {
        Scene {
            wanted: 5000,
            recorded: 1234,
            kills: 1,
            handled_rates: vec![0.0, 50.0, 100.0],
            workers: vec![(1, 4242, Some(20)), (2, 0, None)],
            ..Scene::default()
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [0, 20, 40, 80] {
            let lines = scene().lines(false, width);
            assert!(lines.iter().all(|line| line.chars().count() <= width.max(13)), "{lines:#?}");
        }
    }

    #[test]
    fn the_chart_rises_with_the_rate_and_color_comes_only_when_wanted() {
        assert_eq!(chart(&[0.0, 50.0, 100.0]), "▁▅█");
        assert_eq!(chart(&[]), "");
        assert!(!scene().lines(false, 80).concat().contains('\x1b'));
        assert!(scene().lines(true, 80).concat().contains('\x1b'));
    }
}
