//! The search for an order: Wing and Gong's, remembering where it has been.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use semel_core::Timestamp;

use super::call::{Answer, Call, Times};
use super::spec::Spec;

/// One call of one task, with the moments between which it took effect.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) task: usize,
    pub(super) call: Call,
    pub(super) answer: Answer,
    /// Whether the answer had come by then; if not, any is right.
    pub(super) is_known: bool,
    pub(super) called: u64,
    pub(super) answered: u64,
}

/// The events of one object, in the order of their calls.
pub(super) struct Search<'a> {
    tasks: Vec<Vec<&'a Event>>,
    now: Timestamp,
    times: Times,
    /// Where it has been in vain: how far each task was, and what the records were.
    seen: BTreeMap<Vec<usize>, Vec<Spec>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(events: &'a [Event], now: Timestamp, times: Times) -> Self {
        let count = events.iter().map(|event| event.task + 1).max().unwrap_or(0);
        let mut tasks = vec![Vec::new(); count];
        for event in events {
            tasks[event.task].push(event);
        }
        Self {
            tasks,
            now,
            times,
            seen: BTreeMap::new(),
        }
    }

    /// Whether some order explains every answer.
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
        // Whatever was called after another call was answered comes after it.
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

/// What was known at a moment: later calls are not there, later answers not known.
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
