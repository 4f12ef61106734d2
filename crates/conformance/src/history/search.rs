//! The search for an order: Wing and Gong's, with a memory of the states it has visited.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use semel_core::{Key, Timestamp};

use super::call::{Answer, Call, Times};
use super::spec::Spec;

/// One call of one task, with the moments between which it took effect.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) task: usize,
    pub(super) call: Call,
    pub(super) answer: Answer,
    /// True if the answer had come by then; if not, any answer is right.
    pub(super) is_known: bool,
    pub(super) called: u64,
    pub(super) answered: u64,
}

/// The events of one object: those of one task about one key in the order of their calls.
///
/// Items of a batch about different keys count as concurrent calls: a batch is no transaction, and a store
/// may answer one of them from a read while another one has to be written. A call that was made after the
/// batch was answered comes after all of them, by the times of both.
pub(super) struct Search<'a> {
    tasks: Vec<Vec<&'a Event>>,
    now: Timestamp,
    times: Times,
    /// States without a solution: the position of each task, and the records.
    seen: BTreeMap<Vec<usize>, Vec<Spec>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(events: &'a [Event], now: Timestamp, times: Times) -> Self {
        let mut tasks: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for event in events {
            let of_one = tasks.entry((event.task, event.call.key().map(Key::as_str)));
            of_one.or_default().push(event);
        }
        Self {
            tasks: tasks.into_values().collect(),
            now,
            times,
            seen: BTreeMap::new(),
        }
    }

    /// Returns whether some order explains every answer.
    pub(super) fn explains(mut self) -> bool {
        let start = vec![0; self.tasks.len()];
        self.goes_on(&start, &Spec::new(self.times))
    }

    fn goes_on(&mut self, at: &[usize], spec: &Spec) -> bool {
        let heads = self
            .tasks
            .iter()
            .zip(at)
            .map(|(events, &at)| events.get(at).copied());
        let heads: Vec<Option<&Event>> = heads.collect();
        if heads.iter().flatten().all(|event| !event.is_known) {
            return true;
        }
        let seen = self.seen.entry(at.to_vec()).or_default();
        if seen.contains(spec) {
            return false;
        }
        seen.push(spec.clone());
        // A call that was made after another call was answered comes after it.
        let first_answer = heads.iter().flatten().map(|event| event.answered).min();
        for (task, event) in heads.iter().enumerate() {
            let Some(event) = event else { continue };
            if first_answer.is_some_and(|first| event.called > first) {
                continue;
            }
            let mut next = spec.clone();
            if next.step(&event.call, &event.answer, self.now) || !event.is_known {
                let mut at = at.to_vec();
                at[task] += 1;
                if self.goes_on(&at, &next) {
                    return true;
                }
            }
        }
        false
    }
}

/// The shortest beginning of a history that no order explains, if there is none for the whole.
pub(super) fn unexplained(events: &[Event], now: Timestamp, times: Times) -> Option<Vec<Event>> {
    if Search::new(events, now, times).explains() {
        return None;
    }
    let mut answers: Vec<u64> = events.iter().map(|event| event.answered).collect();
    answers.sort_unstable();
    let explained = |until: &u64| Search::new(&beginning(events, *until), now, times).explains();
    let at = answers.partition_point(explained);
    let until = answers.get(at).copied().unwrap_or(u64::MAX);
    Some(beginning(events, until))
}

/// The history up to a moment, without later calls and with later answers unknown.
fn beginning(events: &[Event], until: u64) -> Vec<Event> {
    let called = events.iter().filter(|event| event.called <= until).cloned();
    let known = called.map(|mut event| {
        if event.answered > until {
            event.is_known = false;
            event.answered = u64::MAX;
        }
        event
    });
    known.collect()
}

/// One line a call, in the order of the calls, with the calls that overlap it visible.
pub(super) fn shown(events: &[Event]) -> String {
    let mut ordered: Vec<&Event> = events.iter().collect();
    ordered.sort_by_key(|event| event.called);
    let mut text = String::new();
    for event in ordered {
        let Event {
            task,
            called,
            answered,
            call,
            answer,
            ..
        } = event;
        let _ = if event.is_known {
            writeln!(
                text,
                "task {task} {called:>4}-{answered:<4} {call} => {}",
                answer.text
            )
        } else {
            writeln!(
                text,
                "task {task} {called:>4}-...  {call} => not answered yet"
            )
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use semel_core::decide::{self, Change};
    use semel_core::{ClaimId, ClaimRequest, FencingToken, Operation, Scope};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn operation(key: &str) -> Operation {
        let scope = Scope::new("", "payments").expect("a scope");
        Operation::new(scope, Key::parse(key).expect("a key"))
    }

    /// A claim that is granted, and what a look at the key finds from then on.
    fn claim(key: &str, token: u64) -> ((Call, Answer), Answer) {
        let Operation { scope, key } = operation(key);
        let request = ClaimRequest::new(scope, key, ClaimId::from_u128(1));
        let token = FencingToken::new(token);
        let decision = decide::claim(None, None, &request, NOW, token);
        let Change::Put(record) = decision.change else {
            panic!("{decision:?}")
        };
        let answer = Answer::to_claim(decision.answer, Times::Exact);
        let found = Answer::to_get(Some(record), Times::Exact);
        ((Call::Claim(request), answer), found)
    }

    fn event(task: usize, (call, answer): (Call, Answer), called: u64, answered: u64) -> Event {
        Event {
            task,
            call,
            answer,
            is_known: true,
            called,
            answered,
        }
    }

    fn look(key: &str, found: Answer) -> (Call, Answer) {
        (Call::Get(operation(key)), found)
    }

    fn nothing() -> Answer {
        Answer::to_get(None, Times::Exact)
    }

    fn explains(events: &[Event]) -> bool {
        Search::new(events, NOW, Times::Exact).explains()
    }

    #[test]
    fn items_of_a_batch_about_different_keys_are_at_once() {
        let ((a, _), (b, found_b)) = (claim("a", 1), claim("b", 2));
        let mut events = vec![event(0, a, 1, 2), event(0, b, 3, 4)];
        // Of one batch: the first item is after both claims, the second before either.
        events.push(event(1, look("b", found_b), 0, 9));
        events.push(event(1, look("a", nothing()), 0, 9));
        assert!(explains(&events));
    }

    #[test]
    fn items_of_a_batch_about_one_key_follow_each_other() {
        let (a, found) = claim("a", 1);
        let there = event(1, look("a", found), 0, 9);
        let absent = event(1, look("a", nothing()), 0, 9);
        let a = event(0, a, 1, 2);
        assert!(explains(&[a.clone(), absent.clone(), there.clone()]));
        assert!(!explains(&[a, there, absent]));
    }

    #[test]
    fn calls_of_one_task_follow_each_other_whatever_they_are_about() {
        let ((a, _), (b, found_b)) = (claim("a", 1), claim("b", 2));
        let mut events = vec![event(0, a, 1, 4), event(0, b, 5, 8)];
        events.push(event(1, look("b", found_b), 0, 9));
        events.push(event(1, look("a", nothing()), 10, 11));
        assert!(!explains(&events));
    }
}
