//! Suites side by side: while one waits for a server, another one computes.

use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Result;
use crate::suites::{Load, Suite};

/// The end of a suite.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) suite: Suite,
    /// Its status and its output, or the reason why it could not be run.
    pub(crate) ran: Result<(ExitStatus, String)>,
    pub(crate) time: Duration,
}

/// Has each lane run one suite after the other until there are no more: those of its own load first, then any, and
/// of those the ones of the lowest rank. Passes each to `ended` when it has ended.
pub(crate) fn run(
    mut suites: Vec<Suite>,
    lanes: &[Load],
    run: impl Fn(&Suite) -> Result<(ExitStatus, String)> + Sync,
    mut ended: impl FnMut(Ended),
) {
    suites.sort_by_key(|suite| suite.rank);
    let (waiting, run) = (&Mutex::new(suites), &run);
    let (to, results) = mpsc::sync_channel(lanes.len());
    thread::scope(|scope| {
        for &load in lanes {
            let to = to.clone();
            scope.spawn(move || {
                while let Some(suite) = next(waiting, load) {
                    let since = now();
                    let ran = run(&suite);
                    let time = since.elapsed();
                    if to.send(Ended { suite, ran, time }).is_err() {
                        break;
                    }
                }
            });
        }
        drop(to);
        results.into_iter().for_each(&mut ended);
    });
}

/// Takes the next suite for a lane of that load.
fn next(waiting: &Mutex<Vec<Suite>>, load: Load) -> Option<Suite> {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    let own = waiting.iter().position(|suite| suite.load == load);
    let any = (!waiting.is_empty()).then_some(0);
    own.or(any).map(|place| waiting.remove(place))
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a suite takes is shown, never decided on"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::sync::Barrier;

    use super::*;
    use crate::failure::Failure;

    const OK: fn() -> Result<(ExitStatus, String)> =
        || Ok((ExitStatus::from_raw(0), String::new()));

    fn suites(all: &[(&str, Load, usize)]) -> Vec<Suite> {
        let suites = all.iter().map(|&(name, load, rank)| {
            let mut suite = Suite::named(name);
            (suite.load, suite.rank) = (load, rank);
            suite
        });
        suites.collect()
    }

    #[test]
    fn a_lane_runs_its_own_first_and_then_what_is_left_longest_first() {
        let all = [
            ("short", Load::Works, 9),
            ("server", Load::Waits, 1),
            ("long", Load::Works, 0),
            ("slow server", Load::Waits, 0),
        ];
        let mut names = Vec::new();
        run(
            suites(&all),
            &[Load::Waits],
            |_| OK(),
            |ended| names.push(ended.suite.name),
        );
        assert_eq!(names, ["slow server", "server", "long", "short"]);
    }

    #[test]
    fn lanes_run_beside_each_other() {
        let all = [("server", Load::Waits, 0), ("work", Load::Works, 0)];
        // Neither would end alone.
        let both = Barrier::new(2);
        let mut count = 0;
        run(
            suites(&all),
            &[Load::Works, Load::Waits],
            |_| {
                both.wait();
                OK()
            },
            |_| count += 1,
        );
        assert_eq!(count, 2);
    }

    #[test]
    fn a_suite_that_cannot_be_run_holds_up_nobody_and_is_handed_over() {
        let all = [("gone", Load::Works, 0), ("there", Load::Works, 1)];
        let mut ends = Vec::new();
        run(
            suites(&all),
            &[Load::Works; 3],
            |suite| match suite.name.as_str() {
                "gone" => Err(Failure::environment("cannot start `gone`")),
                _ => OK(),
            },
            |ended| ends.push((ended.suite.name, ended.ran.is_ok())),
        );
        ends.sort();
        let expected = [("gone", false), ("there", true)];
        assert_eq!(ends, expected.map(|(name, is)| (name.to_owned(), is)));
    }
}
