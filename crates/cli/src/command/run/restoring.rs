//! Shows how far a pipeline is restored: with a bar on a terminal, with a line now and then elsewhere.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::streamed::Monitor;
use semel_core::units::duration_text;
use tokio::time::{Instant, sleep};

use crate::progress::{Bar, Bars, Unit};
use crate::status::Reach;

/// Watches a pipeline for as long as the future is polled. A restoration that takes no time is not shown.
pub(super) async fn tell(pipeline: Box<str>, streamed: Arc<dyn Monitor>, bars: Bars) {
    let mut restoring: Option<Restoring> = None;
    loop {
        sleep(LOOK).await;
        let reach = Reach::of(&streamed.restored());
        if reach.is_done() {
            if let Some(it) = restoring.take() {
                drop(it.bar);
                bars.note(&done(&pipeline, &reach, it.since.elapsed()));
            }
            continue;
        }
        let it = restoring.get_or_insert_with(Restoring::new);
        if let Some(records) = reach.records {
            let name = format!("{pipeline} restoring");
            let bar = it.bar.get_or_insert_with(|| {
                it.already = reach.read;
                bars.of_work(&name, Unit::Records, Some(records))
            });
            bar.ends_at(records);
            bar.reach(reach.read);
        }
        if !bars.are_shown() && it.told_at.elapsed() >= TELL_EVERY {
            it.told_at = Instant::now();
            let read = reach.read.saturating_sub(it.already);
            bars.note(&on_the_way(&pipeline, &reach, read, it.since.elapsed()));
        }
    }
}

/// A restoration in progress.
struct Restoring {
    since: Instant,
    told_at: Instant,
    bar: Option<Bar>,
    /// The records that were read before the first look.
    already: u64,
}

impl Restoring {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            since: now,
            told_at: now,
            bar: None,
            already: 0,
        }
    }
}

/// The line for `read` records in the time `taken`.
fn on_the_way(pipeline: &str, reach: &Reach, read: u64, taken: Duration) -> String {
    let partitions = reach.partitions.len();
    let Some(records) = reach.records else {
        return format!(
            "{pipeline}: restoring what was done, of {partitions} partitions: waiting until no transaction of \
             a former owner is open"
        );
    };
    let millis = u64::try_from(taken.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = read.saturating_mul(1_000) / millis;
    let left = records.saturating_sub(reach.read);
    let share = reach.read.saturating_mul(100).checked_div(records);
    let share = share.unwrap_or(100);
    let wait = match left.checked_div(rate) {
        Some(secs) => format!("{} left", duration_text(Duration::from_secs(secs.max(1)))),
        None => "nothing comes".to_owned(),
    };
    format!(
        "{pipeline}: restoring what was done, of {partitions} partitions: {} of {records} records ({share}%), \
         {rate}/s, {wait}",
        reach.read
    )
}

fn done(pipeline: &str, reach: &Reach, taken: Duration) -> String {
    let Reach {
        operations, read, ..
    } = reach;
    let secs = taken.as_secs_f64();
    format!("{pipeline}: restored {operations} operations from {read} records in {secs:.1}s")
}

const LOOK: Duration = Duration::from_millis(200);
const TELL_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use semel_core::port::streamed::Restored;

    use super::*;

    fn reach(read: u64, records: Option<u64>) -> Reach {
        let restored = Restored {
            partition: 0,
            read,
            records,
            operations: 3 * read,
            is_done: false,
        };
        Reach::of(&[restored])
    }

    #[test]
    fn rate_and_time_left_are_told() {
        let text = on_the_way(
            "clean",
            &reach(600, Some(1_000)),
            500,
            Duration::from_secs(5),
        );
        let expected = "clean: restoring what was done, of 1 partitions: 600 of 1000 records (60%), 100/s, 4s \
                        left";
        assert_eq!(text, expected);
        let stuck = on_the_way("clean", &reach(600, Some(1_000)), 0, Duration::from_secs(5));
        assert!(stuck.ends_with("0/s, nothing comes"), "{stuck}");
        let waiting = on_the_way("clean", &reach(0, None), 0, Duration::from_secs(5));
        assert!(waiting.contains("former owner"), "{waiting}");
        let nothing = on_the_way("clean", &reach(0, Some(0)), 0, Duration::ZERO);
        assert!(nothing.contains("(100%)"), "{nothing}");
        let done = done("clean", &reach(7, Some(7)), Duration::from_millis(1_500));
        assert_eq!(done, "clean: restored 21 operations from 7 records in 1.5s");
    }
}
