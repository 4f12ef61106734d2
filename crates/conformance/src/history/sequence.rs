//! Sequences: one task, one call after the other, time passing in between.

use std::fmt::Write as _;
use std::time::Duration;

use semel_core::port::store::ListQuery;
use semel_core::{Clock, Key, Store, Timestamp};

use super::Broken;
use super::call::{Call, Times, ask};
use super::generate::Alphabet;
use super::random::Random;
use super::spec::Spec;
use crate::subject::Subject;

/// One step of a sequence.
#[derive(Clone, Debug)]
enum Turn {
    Ask(Vec<Call>),
    Wait(Duration),
    /// Compares the list with what should be there.
    List,
}

/// Runs one sequence; if it is answered wrong, finds a shorter one that still is.
pub(super) async fn run<S: Subject>(seed: u64) -> Result<(), Broken> {
    let has_clock = S::open().await.clock().is_some();
    let mut turns = generate(seed, has_clock);
    let Err(mut history) = play::<S>(&turns).await else {
        return Ok(());
    };
    let mut length = turns.len() / 2;
    while length > 0 {
        let mut from = 0;
        while from < turns.len() {
            let mut fewer = turns.clone();
            fewer.drain(from..(from + length).min(turns.len()));
            match play::<S>(&fewer).await {
                Err(shorter) => (turns, history) = (fewer, shorter),
                Ok(()) => from += length,
            }
        }
        length /= 2;
    }
    Err(Broken { seed, history })
}

fn generate(seed: u64, has_clock: bool) -> Vec<Turn> {
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
    (0..TURNS).map(turn).collect()
}

/// Plays a sequence on a fresh instance; what happened, if an answer was wrong.
async fn play<S: Subject>(turns: &[Turn]) -> Result<(), String> {
    let subject = S::open().await;
    let times = if subject.clock().is_some() {
        Times::Exact
    } else {
        Times::Ignored
    };
    let now = || subject.clock().map_or(STILL, Clock::now);
    let (mut spec, mut told) = (Spec::new(times), String::new());
    for turn in turns {
        match turn {
            Turn::Wait(by) => {
                subject.advance(*by).await;
                let _ = writeln!(told, "wait {by:?}");
            }
            Turn::List => check_list(&subject, &spec, now())
                .await
                .map_err(|why| told.clone() + &why)?,
            Turn::Ask(batch) => {
                let answers = ask(&**subject.store(), batch, times).await;
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
                    if !next.step(call, answer, now()) {
                        // A record that passed its window may be gone.
                        next = spec.clone();
                        let gone = call
                            .key()
                            .is_some_and(|key| next.forget_expired(key, now()));
                        if !gone || !next.step(call, answer, now()) {
                            let records = spec.shown(call);
                            return Err(format!("{told}which is wrong; there was {records}"));
                        }
                    }
                    spec = next;
                }
            }
        }
    }
    Ok(())
}

/// The list holds what must be there and nothing that must not.
async fn check_list<S: Subject>(subject: &S, spec: &Spec, now: Timestamp) -> Result<(), String> {
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
