//! Races: several tasks call at the same time, while the clock stands still.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use semel_core::{Clock, FencingToken, Timestamp};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::Broken;
use super::audit_trail::check_race;
use super::call::{Times, ask};
use super::generate::{Alphabet, is_gated};
use super::random::Random;
use super::search::{Event, shown, unexplained};
use crate::backend::AnySubject;

/// Runs one race on an empty instance, and searches for an order that explains it.
pub(super) async fn run(subject: AnySubject, seed: u64) -> Result<AnySubject, Broken> {
    let subject = Arc::new(subject);
    let (now, times) = match subject.clock() {
        Some(clock) => (clock.now(), Times::Exact),
        None => (STILL, Times::Ignored),
    };
    let events = record(&subject, seed, times)
        .await
        .map_err(|history| Broken { seed, history })?;
    let broken = |history| Err(Broken { seed, history });
    if let Some(history) = tokens_out_of_order(&events) {
        return broken(history);
    }
    if let Err(history) = check_race(subject.store(), &events).await {
        return broken(history);
    }
    for (name, events) in by_object(events) {
        if let Some(history) = unexplained(&events, now, times) {
            return broken(format!("about {name}:\n{}", shown(&history)));
        }
    }
    let subject = Arc::into_inner(subject);
    Ok(subject.expect("the tasks have ended"))
}

/// Starts the tasks, and notes their calls, the answers, and the times of both.
async fn record(subject: &Arc<AnySubject>, seed: u64, times: Times) -> Result<Vec<Event>, String> {
    let (count, turns) = extent();
    let moment = Arc::new(AtomicU64::new(0));
    let together = Arc::new(Barrier::new(count));
    let mut tasks = JoinSet::new();
    for task in 0..count {
        let (subject, moment) = (Arc::clone(subject), Arc::clone(&moment));
        let together = Arc::clone(&together);
        tasks.spawn(async move {
            let mut random = Random::new(seed * count as u64 + task as u64);
            let mut events = Vec::new();
            together.wait().await;
            for _ in 0..turns {
                let batch = Alphabet::STILL.batch(&mut random);
                let called = moment.fetch_add(1, Ordering::SeqCst);
                let answers = ask(subject.store(), &batch, times).await;
                let answered = moment.fetch_add(1, Ordering::SeqCst);
                let answers = answers.map_err(|error| format!("a call failed: {error:?}"))?;
                if answers.len() != batch.len() {
                    return Err(format!(
                        "{} answers to a batch of {}",
                        answers.len(),
                        batch.len()
                    ));
                }
                let asked = batch.into_iter().zip(answers).map(|(call, answer)| Event {
                    task,
                    call,
                    answer,
                    is_known: true,
                    called,
                    answered,
                });
                events.extend(asked);
                if random.once_in(2) {
                    tokio::task::yield_now().await;
                }
            }
            Ok(events)
        });
    }
    let mut events = Vec::new();
    for answered in tasks.join_all().await {
        events.extend(answered?);
    }
    Ok(events)
}

/// The number of tasks, and of calls of each: `SEMEL_RACE`, as `8x40`, or the default.
fn extent() -> (usize, usize) {
    let wanted = std::env::var("SEMEL_RACE").ok();
    wanted
        .and_then(|text| {
            let (tasks, turns) = text.split_once('x')?;
            Some((tasks.parse().ok()?, turns.parse().ok()?))
        })
        .unwrap_or((TASKS, TURNS))
}

/// The history by objects. Keys that share an entity are one object; every other key is one of its
/// own, and each sees the sweeps. A batch becomes its items, one after the other.
fn by_object(events: Vec<Event>) -> BTreeMap<String, Vec<Event>> {
    let mut objects = BTreeMap::<String, Vec<Event>>::new();
    let names = events.iter().filter_map(object_of).collect::<Vec<_>>();
    for name in names {
        objects.entry(name).or_default();
    }
    for event in events {
        if let Some(name) = object_of(&event) {
            objects.entry(name).or_default().push(event);
        } else {
            let single = objects.iter_mut().filter(|(name, _)| *name != ENTITY);
            single.for_each(|(_, events)| events.push(event.clone()));
        }
    }
    objects
}

fn object_of(event: &Event) -> Option<String> {
    let key = event.call.key()?.to_string();
    Some(if is_gated(&key) {
        ENTITY.to_owned()
    } else {
        key
    })
}

/// Two grants that break the rule that a token is granted once and that a later grant never gets a
/// smaller one.
fn tokens_out_of_order(events: &[Event]) -> Option<String> {
    let mut grants: Vec<(FencingToken, &Event)> = events
        .iter()
        .filter_map(|event| Some((event.answer.granted?, event)))
        .collect();
    grants.sort_by_key(|(token, event)| (*token, event.called));
    let pairs = grants.iter().enumerate().flat_map(|(at, smaller)| {
        let larger = &grants[at + 1..];
        larger.iter().map(move |larger| (smaller, larger))
    });
    let mut wrong = pairs.filter(|((token, earlier), (other, later))| {
        token == other || later.answered < earlier.called
    });
    let ((_, one), (_, other)) = wrong.next()?;
    let both = [(*one).clone(), (*other).clone()];
    Some(format!("the tokens of two grants:\n{}", shown(&both)))
}

const TASKS: usize = 4;
const TURNS: usize = 20;
const ENTITY: &str = "cart-1 and cart-2";
/// A time for the decisions where the store has its own; no answer is compared with it.
const STILL: Timestamp = Timestamp::from_millis(1_795_255_200_000);
