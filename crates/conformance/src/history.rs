//! Random histories, checked against the decisions.
//!
//! Two kinds. A *race* is a few tasks that call the store at the same time while its clock stands
//! still; per operation, some order of the calls must exist that respects real time and in which
//! each answer is the one that `decide` gives. A *sequence* is one task, with time passing between
//! its calls; each answer must be the one that `decide` gives, also where everything moves to a
//! fresh instance in between. A seed fixes what is called, and, for a sequence, everything.

mod audit_trail;
mod call;
mod generate;
mod race;
pub(crate) mod random;
mod search;
mod sequence;
mod spec;

use semel_core::LawId;

use crate::backend::{AnySubject, Backend, Boxed, Ports};
use crate::subject::{Subject, TransferSubject};

/// Runs races on empty instances of `S`, one per seed from `first`; the first one that is broken is
/// the error.
///
/// # Errors
///
/// The seed, the law, and the shortest part of the history that no order explains.
pub async fn race<S: Subject>(first: u64, count: u64) -> Result<(), Broken> {
    races(Ports::<S>::new().erase(), first, count).await
}

/// Runs sequences on fresh instances of `S`, one per seed from `first`; the first one that is broken
/// is the error.
///
/// # Errors
///
/// The seed and the shortest sequence found whose answers differ from those of `decide`.
pub async fn sequence<S: Subject>(first: u64, count: u64) -> Result<(), Broken> {
    sequences(Ports::<S>::new().erase(), first, count, false).await
}

/// Runs sequences that move, now and then, to a fresh instance of `S`; the first one that is broken
/// is the error.
///
/// # Errors
///
/// As [`sequence`].
pub async fn moving<S: TransferSubject>(first: u64, count: u64) -> Result<(), Broken> {
    sequences(Ports::<S>::new().transfer().erase(), first, count, true).await
}

/// A boxed future of no parameter, which is compiled in this crate, as those below are.
fn races(backend: Backend, first: u64, count: u64) -> Histories {
    Box::pin(async move {
        let mut last: Option<AnySubject> = None;
        for seed in first..first + count {
            let subject = match last.take() {
                None => backend.open().await,
                Some(last) => last.renew().await,
            };
            last = Some(race::run(subject, seed).await?);
        }
        Ok(())
    })
}

fn sequences(backend: Backend, first: u64, count: u64, moves: bool) -> Histories {
    Box::pin(async move {
        let has_clock = backend.open().await.clock().is_some();
        for seed in first..first + count {
            sequence::run(&backend, seed, has_clock, moves).await?;
        }
        Ok(())
    })
}

type Histories = Boxed<'static, Result<(), Broken>>;

/// A history that breaks a law.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The seed to try again.
    pub seed: u64,
    /// The calls and their answers, one call a line.
    pub history: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "seed {} is not explained by the decisions:\n{}",
            self.seed, self.history
        )
    }
}

/// Runs the races of `history_laws!`: as many as the backend or the environment asks for.
#[doc(hidden)]
pub fn check_races(backend: &Backend) {
    let races = races(backend.clone(), first_seed(), count(backend));
    check(LawId::OneClaim, races);
}

/// Runs the sequences of `history_laws!`: as many as the backend or the environment asks for.
#[doc(hidden)]
pub fn check_sequences(backend: &Backend) {
    let sequences = sequences(backend.clone(), first_seed(), count(backend), false);
    check(LawId::StaleClaimFenced, sequences);
}

/// Runs the sequences of `transfer_laws!`, which move: as many as the backend or the environment
/// asks for.
#[doc(hidden)]
pub fn check_moves(backend: &Backend) {
    let sequences = sequences(backend.clone(), first_seed(), count(backend), true);
    check(LawId::Transferred, sequences);
}

fn check(law: LawId, histories: Histories) {
    crate::check::run(
        law,
        Box::pin(async move {
            if let Err(broken) = histories.await {
                panic!("{broken}");
            }
        }),
    );
}

fn count(backend: &Backend) -> u64 {
    number("SEMEL_HISTORIES").unwrap_or(backend.histories())
}

fn first_seed() -> u64 {
    number("SEMEL_FIRST_SEED").unwrap_or(FIRST_SEED)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

const FIRST_SEED: u64 = 1;
