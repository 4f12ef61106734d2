//! Sequences: one task, one call after the other, time passing in between.

use std::fmt::Write as _;
use std::time::Duration;

use semel_core::port::store::ListQuery;
use semel_core::port::transfer::TransferStore;
use semel_core::{Clock, Key, Store, Timestamp};

use super::Broken;
use super::audit_trail::AuditTrail;
use super::call::{Call, Times, ask};
use super::generate::Alphabet;
use super::random::Random;
use super::spec::Spec;
use crate::backend::{AnySubject, Backend};

/// One step of a sequence.
#[derive(Clone, Debug)]
enum Turn {
    Ask(Vec<Call>),
    Wait(Duration),
    /// Compares the lists with the expected contents.
    List,
    /// Moves everything to a fresh instance, and goes on there.
    Move,
}

/// Runs one sequence, which moves to fresh instances now and then if it `moves`. If an answer is wrong, finds a
/// shorter sequence with a wrong answer.
pub(super) async fn run(
    backend: &Backend,
    seed: u64,
    has_clock: bool,
    moves: bool,
) -> Result<(), Broken> {
    let turns = generate(seed, has_clock, moves);
    match play(backend, &turns).await {
        Ok(()) => Ok(()),
        Err(history) => {
            let history = shortened(backend, turns, history).await;
            Err(Broken { seed, history })
        }
    }
}

/// A history of fewer turns, and smaller batches, that still has a wrong answer.
async fn shortened(backend: &Backend, mut turns: Vec<Turn>, mut history: String) -> String {
    let mut length = turns.len() / 2;
    while length > 0 {
        let mut from = 0;
        while from < turns.len() {
            let mut fewer = turns.clone();
            fewer.drain(from..(from + length).min(turns.len()));
            match play(backend, &fewer).await {
                Err(shorter) => (turns, history) = (fewer, shorter),
                Ok(()) => from += length,
            }
        }
        length /= 2;
    }
    for at in 0..turns.len() {
        let mut item = 0;
        while let Turn::Ask(batch) = &turns[at]
            && batch.len() > 1
            && item < batch.len()
        {
            let mut smaller = batch.clone();
            smaller.remove(item);
            let mut fewer = turns.clone();
            fewer[at] = Turn::Ask(smaller);
            match play(backend, &fewer).await {
                Err(shorter) => (turns, history) = (fewer, shorter),
                Ok(()) => item += 1,
            }
        }
    }
    history
}

fn generate(seed: u64, has_clock: bool, moves: bool) -> Vec<Turn> {
    let mut random = Random::new(seed);
    let alphabet = if has_clock {
        Alphabet::MOVING
    } else {
        Alphabet::STILL
    };
    let turn = |_| match random.below(10) {
        0 => Turn::List,
        1..=3 if has_clock => Turn::Wait(random.pick(&WAITS)),
        _ => Turn::Ask(alphabet.batch(&mut random)),
    };
    let mut turns: Vec<Turn> = (0..TURNS).map(turn).collect();
    for _ in 0..if moves { MOVES } else { 0 } {
        let at = usize::try_from(random.below(TURNS as u64)).unwrap_or(0);
        turns.insert(at, Turn::Move);
    }
    turns
}

/// Plays a sequence on a fresh instance. If an answer was wrong, returns the history as the error.
async fn play(backend: &Backend, turns: &[Turn]) -> Result<(), String> {
    let mut subject = backend.open().await;
    let times = if subject.clock().is_some() {
        Times::Exact
    } else {
        Times::Ignored
    };
    let (mut spec, mut trail, mut told) = (Spec::new(times), AuditTrail::default(), String::new());
    for turn in turns {
        let now = subject.clock().map_or(STILL, Clock::now);
        match turn {
            Turn::Wait(by) => {
                subject.advance(*by).await;
                let _ = writeln!(told, "wait {by:?}");
            }
            Turn::List => {
                check_list(&subject, &spec, now)
                    .await
                    .map_err(|why| told.clone() + &why)?;
                let checked = trail.check(subject.store(), times).await;
                checked.map_err(|why| told.clone() + &why)?;
            }
            Turn::Move => {
                subject = moved(subject).await.map_err(|why| told.clone() + &why)?;
                let _ = writeln!(told, "move to a fresh instance");
            }
            Turn::Ask(batch) => {
                let answers = ask(subject.store(), batch, times).await;
                let answers = answers.map_err(|error| format!("{told}failed: {error:?}"))?;
                if answers.len() != batch.len() {
                    let count = answers.len();
                    return Err(format!(
                        "{told}{count} answers to a batch of {}",
                        batch.len()
                    ));
                }
                for (call, answer) in batch.iter().zip(&answers) {
                    let _ = writeln!(told, "{call} => {}", answer.text);
                    let mut next = spec.clone();
                    if !next.step(call, answer, now) {
                        // A record that passed its window may be gone.
                        next = spec.clone();
                        let gone = call.key().is_some_and(|key| next.forget_expired(key, now));
                        if !gone || !next.step(call, answer, now) {
                            let records = spec.shown(call);
                            return Err(format!("{told}which is wrong; there was {records}"));
                        }
                    }
                    trail.step((call, answer), (&spec, &next), now);
                    spec = next;
                }
            }
        }
    }
    Ok(())
}

/// A fresh instance at the same time, with everything that `here` holds. Checks that a second import of it finds
/// nothing new.
async fn moved(here: AnySubject) -> Result<AnySubject, String> {
    let there = here.another().await;
    if let (Some(from), Some(to)) = (here.clock(), there.clock()) {
        to.advance(from.now().since(to.now()));
    }
    for round in 0..2 {
        let mut after = None;
        loop {
            let page = here.transfer().export(after.as_deref(), EXPORTED).await;
            let page = page.map_err(|error| format!("the export failed: {error:?}"))?;
            let new = there.transfer().import(page.items.as_slice().into()).await;
            let new = new.map_err(|error| format!("the import failed: {error:?}"))?;
            let (count, asked) = (new.len(), page.items.len());
            if count != asked {
                return Err(format!("{count} answers to an import of {asked}"));
            }
            if let Some(at) = new.iter().position(|new| *new && round == 1) {
                return Err(format!("{:?} is new twice", page.items[at]));
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(there)
}

/// Checks that the list holds every record that must be there and none that must not.
async fn check_list(subject: &AnySubject, spec: &Spec, now: Timestamp) -> Result<(), String> {
    let (must, may) = spec.present(now);
    let mut query = ListQuery {
        limit: 2,
        ..ListQuery::default()
    };
    let mut listed: Vec<Key> = Vec::new();
    loop {
        let page = subject.store().list(&query).await;
        let page = page.map_err(|error| format!("the list failed: {error:?}"))?;
        listed.extend(page.items.into_iter().map(|listed| listed.operation.key));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let missing = must.iter().find(|key| !listed.contains(key));
    let extra = listed
        .iter()
        .find(|key| !must.contains(key) && !may.contains(key));
    if missing.is_some() || extra.is_some() || listed.len() > must.len() + may.len() {
        return Err(format!(
            "the list is {listed:?}, should be {must:?} and perhaps {may:?}"
        ));
    }
    Ok(())
}

const TURNS: usize = 60;
const MOVES: usize = 2;
/// Items per page of an export.
const EXPORTED: usize = 3;
/// Steps that meet the spans and windows of the alphabet to the millisecond.
const WAITS: [Duration; 6] = [
    Duration::from_millis(1),
    Duration::from_millis(99),
    Duration::from_millis(100),
    Duration::from_millis(700),
    Duration::from_millis(1_100),
    Duration::from_millis(2_400),
];
/// A time for the decisions where the store has its own; no answer is compared with it.
const STILL: Timestamp = Timestamp::from_millis(1_795_255_200_000);
