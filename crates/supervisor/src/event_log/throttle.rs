//! Limits the reports of one and the same reason: the first few in full, then a count now and then.

use std::collections::BTreeMap;
use std::time::Duration;

use semel_core::Timestamp;

/// The reports so far of the reasons for which messages of a pipeline are set aside.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    reasons: BTreeMap<Reason, Told>,
}

/// The decision, and its reason without the part that differs from message to message.
type Reason = (&'static str, String);

#[derive(Clone, Copy, Debug)]
struct Told {
    /// Messages that were reported in full.
    lines: u64,
    /// Messages that were counted and not reported yet.
    held: u64,
    /// The time of the last report.
    at: Timestamp,
}

impl Throttle {
    /// Counts one more message; returns true if it is to be reported in full.
    pub(super) fn take(&mut self, decision: &'static str, reason: &str, now: Timestamp) -> bool {
        let mut reason = (decision, stem(reason));
        if self.reasons.len() >= REASONS && !self.reasons.contains_key(&reason) {
            reason.1 = String::from(OTHER);
        }
        let fresh = Told {
            lines: 0,
            held: 0,
            at: now,
        };
        let told = self.reasons.entry(reason).or_insert(fresh);
        if told.held == 0 && now.since(told.at) > QUIET {
            *told = fresh;
        }
        if told.lines < LINES {
            told.lines += 1;
            told.at = now;
            return true;
        }
        told.held += 1;
        false
    }

    /// Returns the lines that are due: counts that were not reported for a while.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<String> {
        self.held(now, PAUSE)
    }

    /// Returns the lines for everything that was counted.
    pub(super) fn rest(&mut self, now: Timestamp) -> Vec<String> {
        self.held(now, Duration::ZERO)
    }

    fn held(&mut self, now: Timestamp, pause: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        for ((decision, reason), told) in &mut self.reasons {
            let since = now.since(told.at);
            if told.held == 0 || since < pause {
                continue;
            }
            let held = std::mem::take(&mut told.held);
            told.at = now;
            let seconds = since.as_secs().max(1);
            lines.push(format!(
                "{decision}: {held} more in the last {seconds} s: {reason}"
            ));
        }
        lines
    }
}

/// The beginning of a reason, which all messages with that reason share.
fn stem(reason: &str) -> String {
    let (start, _) = reason.split_once(": ").unwrap_or((reason, ""));
    let bare = start.chars().filter(|c| !c.is_ascii_digit());
    let bare: String = bare.take(LONGEST).collect();
    bare.trim_end().to_owned()
}

/// The number of times that a reason is reported in full.
const LINES: u64 = 10;
/// The time for which messages are counted before the count is reported.
const PAUSE: Duration = Duration::from_secs(30);
/// A reason that did not occur for this long is reported in full again.
const QUIET: Duration = Duration::from_secs(600);
/// The number of reasons that are distinguished.
const REASONS: usize = 64;
const OTHER: &str = "other reasons";
/// The number of characters of a reason that count.
const LONGEST: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_reason_is_told_ten_times_and_counted_then() {
        let mut throttle = Throttle::default();
        let told = |throttle: &mut Throttle, reason: &str, seconds| {
            throttle.take("dead", reason, at(seconds))
        };
        for code in 0..10 {
            assert!(told(
                &mut throttle,
                &format!("exit code {code}: x{code}"),
                0
            ));
        }
        for _ in 0..25 {
            assert!(!told(&mut throttle, "exit code 3: card declined", 1));
        }
        assert!(told(&mut throttle, "status 404", 1), "another reason");
        assert!(
            throttle.take("in doubt", "exit code 3", at(1)),
            "another decision"
        );
        assert_eq!(throttle.due(at(29)), [""; 0]);
        let expected = ["dead: 25 more in the last 30 s: exit code"];
        assert_eq!(throttle.due(at(30)), expected);
        assert_eq!(throttle.due(at(90)), [""; 0], "told once");
        assert!(!told(&mut throttle, "exit code 3", 95));
        assert_eq!(
            throttle.rest(at(97)),
            ["dead: 1 more in the last 67 s: exit code"]
        );
    }

    #[test]
    fn what_has_not_occurred_for_long_is_told_anew() {
        let mut throttle = Throttle::default();
        for _ in 0..12 {
            throttle.take("dead", "no", at(0));
        }
        assert!(
            !throttle.take("dead", "no", at(700)),
            "some were not told yet"
        );
        assert_eq!(throttle.due(at(700)).len(), 1);
        assert!(!throttle.take("dead", "no", at(1_000)));
        throttle.rest(at(1_000));
        assert!(throttle.take("dead", "no", at(1_601)));
    }

    #[test]
    fn reasons_without_number_are_bounded() {
        let mut throttle = Throttle::default();
        let name =
            |index: u32| format!("host {}", char::from_u32(0x4e00 + index).expect("a letter"));
        for index in 0..1_000 {
            throttle.take("dead", &name(index), at(0));
        }
        assert_eq!(throttle.reasons.len(), REASONS + 1);
        let rest = throttle.rest(at(1));
        assert_eq!(rest, ["dead: 926 more in the last 1 s: other reasons"]);
    }
}
