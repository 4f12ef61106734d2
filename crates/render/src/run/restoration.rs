//! Shows how far a pipeline is restored: with a bar on a terminal, with a line now and then elsewhere.

use std::time::Duration;

use semel_core::units::duration_text;
use semel_supervisor::Restoration;
use tokio::time::Instant;

use crate::progress::{Bar, Bars, Unit};

/// The restoration of a pipeline, as far as it was shown.
pub(super) struct Restoring {
    told_at: Instant,
    bar: Option<Bar>,
    /// The records that were read before the first look.
    already: u64,
}

impl Default for Restoring {
    fn default() -> Self {
        Self {
            told_at: Instant::now(),
            bar: None,
            already: 0,
        }
    }
}

impl Restoring {
    /// Shows the progress after the time `elapsed`.
    pub(super) fn show(
        &mut self,
        pipeline: &str,
        restoration: &Restoration,
        elapsed: Duration,
        bars: &Bars,
    ) {
        if let Some(records) = restoration.records {
            let name = format!("{pipeline} restoring");
            let bar = self.bar.get_or_insert_with(|| {
                self.already = restoration.read;
                bars.of_work(&name, Unit::Records, Some(records))
            });
            bar.ends_at(records);
            bar.reach(restoration.read);
        }
        if !bars.are_shown() && self.told_at.elapsed() >= TELL_EVERY {
            self.told_at = Instant::now();
            let read = restoration.read.saturating_sub(self.already);
            bars.note(&on_the_way(pipeline, restoration, read, elapsed));
        }
    }
}

/// The line for `read` records in the time `taken`.
fn on_the_way(pipeline: &str, restoration: &Restoration, read: u64, taken: Duration) -> String {
    let partitions = restoration.partitions.len();
    let Some(records) = restoration.records else {
        return format!(
            "{pipeline}: restoring what was done, of {partitions} partitions: waiting until no transaction of \
             a former owner is open"
        );
    };
    let millis = u64::try_from(taken.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = read.saturating_mul(1_000) / millis;
    let left = records.saturating_sub(restoration.read);
    let share = restoration.read.saturating_mul(100).checked_div(records);
    let share = share.unwrap_or(100);
    let wait = match left.checked_div(rate) {
        Some(secs) => format!("{} left", duration_text(Duration::from_secs(secs.max(1)))),
        None => "nothing comes".to_owned(),
    };
    format!(
        "{pipeline}: restoring what was done, of {partitions} partitions: {} of {records} records ({share}%), \
         {rate}/s, {wait}",
        restoration.read
    )
}

/// The line at the end.
pub(super) fn done(pipeline: &str, restoration: &Restoration, taken: Duration) -> String {
    let Restoration {
        operations, read, ..
    } = restoration;
    let secs = taken.as_secs_f64();
    format!("{pipeline}: restored {operations} operations from {read} records in {secs:.1}s")
}

const TELL_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use semel_core::port::streamed::Restored;

    use super::*;

    fn restoration(read: u64, records: Option<u64>) -> Restoration {
        let restored = Restored {
            partition: 0,
            read,
            records,
            operations: 3 * read,
            is_done: false,
        };
        Restoration::of(&[restored])
    }

    #[test]
    fn rate_and_time_left_are_told() {
        let text = on_the_way(
            "clean",
            &restoration(600, Some(1_000)),
            500,
            Duration::from_secs(5),
        );
        let expected = "clean: restoring what was done, of 1 partitions: 600 of 1000 records (60%), 100/s, 4s \
                        left";
        assert_eq!(text, expected);
        let stuck = on_the_way(
            "clean",
            &restoration(600, Some(1_000)),
            0,
            Duration::from_secs(5),
        );
        assert!(stuck.ends_with("0/s, nothing comes"), "{stuck}");
        let waiting = on_the_way("clean", &restoration(0, None), 0, Duration::from_secs(5));
        assert!(waiting.contains("former owner"), "{waiting}");
        let nothing = on_the_way("clean", &restoration(0, Some(0)), 0, Duration::ZERO);
        assert!(nothing.contains("(100%)"), "{nothing}");
        let done = done(
            "clean",
            &restoration(7, Some(7)),
            Duration::from_millis(1_500),
        );
        assert_eq!(done, "clean: restored 21 operations from 7 records in 1.5s");
    }
}
