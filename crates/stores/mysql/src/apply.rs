//! Effects in the store's own transaction: claim, run, complete, message by message (class A).
//!
//! The common case pays for no savepoints, and sends the statements of all messages at once. The first failed statement
//! has the transaction undone and repeated, this time with a savepoint before each message.
//!
//! # Guarantee   INB-1, INB-2, BAT-1, BAT-2

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use semel_core::port::transactional::{Application, Applied, Statements, Value};
use semel_core::{
    Admission, Certainty, Claim, ClaimRequest, Error, ErrorKind, OpId, Outcome, Record, Result,
    Settled, Settlement, State, StateKind, Step,
};

use crate::error::{Failure, Why};
use crate::jobs::{claim_one, wanted_claims};
use crate::locked::{Locked, Wanted};
use crate::pool::PooledConnection;
use crate::script::Script;
use crate::session::Session;
use crate::statements::{Compiled, ErrorClass, classify, is_about_statement};
use crate::transaction::{Job, Stop};

/// One call of `apply`.
pub(crate) struct Apply<'b> {
    compiled: Compiled,
    batch: &'b [Application],
    claims: Vec<ClaimRequest>,
    /// Set once a statement of this call has failed.
    has_failed: bool,
}

/// A granted message whose statements are to run.
struct Turn {
    place: usize,
    claim: Claim,
}

/// The failure of one message's statements.
struct Failed {
    words: Box<str>,
    may_retry: bool,
}

impl<'b> Apply<'b> {
    pub(crate) fn new(statements: &Statements, batch: &'b [Application]) -> Result<Self> {
        let count = statements.params.len();
        if batch.iter().any(|it| it.values.len() != count) {
            let message = "a message does not have one value for each parameter";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(Self {
            compiled: Compiled::new(statements)?,
            batch,
            claims: batch.iter().map(|it| it.claim.clone()).collect(),
            has_failed: false,
        })
    }
}

impl Job for Apply<'_> {
    type Answer = Vec<Applied>;

    async fn run(
        &mut self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<Self::Answer, Stop> {
        let careful = session.careful.load(Ordering::Relaxed);
        let most_bytes = connection.most_bytes();
        let fits = |message: &Application| bytes_of(&message.values) < most_bytes;
        let is_careful = self.has_failed || careful > 0 || !self.batch.iter().all(fits);
        let mut locked = self.begin(session, connection).await?;
        let answers = if is_careful {
            self.run_carefully(session, &mut locked).await?
        } else {
            self.run_at_once(session, &mut locked).await?
        };
        locked.finish().await?;
        if is_careful {
            session
                .careful
                .store(careful.saturating_sub(1), Ordering::Relaxed);
        }
        Ok(answers)
    }
}

impl Apply<'_> {
    async fn begin<'t>(
        &self,
        session: &'t Session,
        connection: &'t mut PooledConnection,
    ) -> Result<Locked<'t>, Stop> {
        let wanted = Wanted {
            first: self.compiled.preparation(session),
            ..wanted_claims(&self.claims)
        };
        let preparation = 1..=wanted.first.statements;
        match Locked::begin(session, connection, wanted).await {
            Err(Stop::Server(failure))
                if preparation.contains(&failure.at) && is_about_statement(&failure) =>
            {
                match failure.why {
                    Why::Refused(error) => {
                        Err(Stop::Failed(self.compiled.refused(failure.at - 1, error)))
                    }
                    why => Err(Stop::Server(Failure { at: 0, why })),
                }
            }
            begun => begun,
        }
    }

    /// Runs all statements at once, on the assumption that none fails.
    async fn run_at_once(
        &mut self,
        session: &Session,
        locked: &mut Locked<'_>,
    ) -> Result<Vec<Applied>, Stop> {
        let mut answers = Vec::with_capacity(self.batch.len());
        let mut scripts = vec![Script::default()];
        for message in self.batch {
            let claim = match claim_one(locked, &message.claim) {
                Admission::Granted(claim) => claim,
                other => {
                    answers.push(Applied::NotGranted(other));
                    continue;
                }
            };
            if scripts
                .last()
                .is_none_or(|script| script.text.len() > FULL_BYTES)
            {
                scripts.push(Script::default());
            }
            if let Some(script) = scripts.last_mut() {
                self.compiled.add(script, &message.values);
            }
            answers.push(settle(locked, message, claim, Ok(()))?);
        }
        for script in scripts.iter().filter(|script| script.statements > 0) {
            match locked.connection.run(script).await {
                Ok(_) => {}
                Err(failure) if failure.is_undoing() || failure.refusal().is_none() => {
                    return Err(Stop::Server(failure));
                }
                Err(_) => {
                    self.has_failed = true;
                    session.careful.store(CAREFUL_JOBS, Ordering::Relaxed);
                    return Err(Stop::Again);
                }
            }
        }
        Ok(answers)
    }

    /// Sets a savepoint before each message, and rolls a message that fails back to it.
    async fn run_carefully(
        &mut self,
        session: &Session,
        locked: &mut Locked<'_>,
    ) -> Result<Vec<Applied>, Stop> {
        let most_bytes = locked.connection.most_bytes();
        let mut answers: Vec<Option<Applied>> = Vec::new();
        answers.resize_with(self.batch.len(), || None);
        let (mut turns, mut touched) = (Vec::new(), HashSet::new());
        for (place, message) in self.batch.iter().enumerate() {
            // A message that depends on one that has not run yet waits for it.
            let about = about(&message.claim);
            if about.iter().any(|id| touched.contains(id)) || turns.len() >= MOST_TURNS {
                self.take_turns(session, locked, std::mem::take(&mut turns), &mut answers)
                    .await?;
                touched.clear();
            }
            match claim_one(locked, &message.claim) {
                Admission::Granted(claim) if bytes_of(&message.values) >= most_bytes => {
                    let failed = Failed {
                        words: "the message is larger than the server's max_allowed_packet".into(),
                        may_retry: false,
                    };
                    answers[place] = Some(settle(locked, message, claim, Err(failed))?);
                }
                Admission::Granted(claim) => {
                    touched.extend(about);
                    turns.push(Turn { place, claim });
                }
                other => answers[place] = Some(Applied::NotGranted(other)),
            }
        }
        self.take_turns(session, locked, turns, &mut answers)
            .await?;
        Ok(answers.into_iter().flatten().collect())
    }

    async fn take_turns(
        &self,
        session: &Session,
        locked: &mut Locked<'_>,
        mut turns: Vec<Turn>,
        answers: &mut [Option<Applied>],
    ) -> Result<(), Stop> {
        while !turns.is_empty() {
            let mut script = Script::default();
            // The first statement of each message.
            let mut begins = Vec::with_capacity(turns.len());
            for turn in &turns {
                if script.text.len() > FULL_BYTES {
                    break;
                }
                begins.push(script.add(&session.texts.message_begin, &[]));
                self.compiled
                    .add(&mut script, &self.batch[turn.place].values);
            }
            let ran = locked.connection.run(&script).await;
            let failed = match ran {
                Ok(_) => None,
                Err(failure) => {
                    let failed = begins.partition_point(|begin| *begin <= failure.at) - 1;
                    Some((failed, self.undo(session, locked, failure).await?))
                }
            };
            let done = failed.as_ref().map_or(begins.len(), |(failed, _)| *failed);
            let later = turns.split_off(done + usize::from(failed.is_some()));
            let mut failed = failed.map(|(_, failed)| failed);
            for (at, turn) in std::mem::replace(&mut turns, later).into_iter().enumerate() {
                let ran = match failed.take_if(|_| at == done) {
                    Some(failed) => Err(failed),
                    None => Ok(()),
                };
                let message = &self.batch[turn.place];
                answers[turn.place] = Some(settle(locked, message, turn.claim, ran)?);
            }
        }
        Ok(())
    }

    /// Undoes the message whose statement failed, and judges the failure.
    async fn undo(
        &self,
        session: &Session,
        locked: &mut Locked<'_>,
        failure: Failure,
    ) -> Result<Failed, Stop> {
        let verdict = match failure.refusal() {
            Some(error) => classify(error),
            None => ErrorClass::Batch,
        };
        let (words, may_retry) = match verdict {
            ErrorClass::Hopeless(words) => (words, false),
            ErrorClass::Passing(words) => (words, true),
            ErrorClass::Unfit(words) => {
                let error = Error::new(ErrorKind::InvalidConfig, words);
                return Err(Stop::Failed(error));
            }
            ErrorClass::Batch => return Err(Stop::Server(failure)),
        };
        let mut script = Script::default();
        script.add(&session.texts.message_undo, &[]);
        // Without its savepoint the whole transaction is gone, which this shows.
        locked.connection.run(&script).await?;
        Ok(Failed { words, may_retry })
    }
}

/// Returns the ids of the operation and the entity of a claim.
fn about(claim: &ClaimRequest) -> Vec<OpId> {
    let scope = &claim.operation.scope;
    let entity = claim
        .gate
        .as_ref()
        .map(|gate| OpId::of(scope, &gate.entity));
    entity.into_iter().chain([claim.operation.id()]).collect()
}

/// Returns the bytes that the values of a message take in a packet, at most.
fn bytes_of(values: &[Value]) -> usize {
    let bytes = |value: &Value| match value {
        Value::Null | Value::Boolean(_) => 0,
        Value::Number(text) | Value::Text(text) | Value::Json(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
    };
    values
        .iter()
        .map(|value| 2 * bytes(value) + 64)
        .sum::<usize>()
        + 4_096
}

/// Completes the claim, or reports the failure of its statements.
fn settle(
    locked: &mut Locked<'_>,
    message: &Application,
    claim: Claim,
    ran: Result<(), Failed>,
) -> Result<Applied, Stop> {
    let id = claim.operation.id();
    let (takeover, window) = (claim.takeover, message.window);
    let (step, error) = match ran {
        Ok(()) => {
            let outcome = Outcome::empty();
            (Step::Complete { outcome, window }, None)
        }
        Err(Failed {
            words,
            may_retry: false,
        }) if !message.gives_back => {
            let error = words.clone();
            let step = Step::Fail {
                error,
                decisive: false,
                window,
            };
            (step, Some(words))
        }
        Err(Failed {
            words,
            may_retry: _,
        }) => {
            let failed = locked.ledger.record(id).map_or(1, Record::failed_attempts);
            let step = Step::Release {
                error: words.clone(),
                certainty: Certainty::NotApplied,
                after: message.backoff.after(failed),
                counted: !message.gives_back,
                limits: message.claim.limits,
                window,
            };
            (step, Some(words))
        }
    };
    let settlement = Settlement {
        operation: claim.operation,
        claim_id: claim.claim_id,
        step,
    };
    let now = locked.now();
    match (locked.ledger.settle(id, &settlement), error) {
        (Settled::Now(StateKind::Completed), None) => Ok(Applied::Completed { takeover }),
        (Settled::Now(state), Some(error)) => {
            let not_before = match locked.ledger.record(id).map(|record| record.state) {
                Some(State::Released { not_before }) => not_before,
                Some(
                    State::Claimed { .. }
                    | State::Started { .. }
                    | State::Completed { .. }
                    | State::Dead { .. }
                    | State::InDoubt { .. },
                )
                | None => now,
            };
            Ok(Applied::Failed {
                state,
                not_before,
                now,
                error,
            })
        }
        (Settled::Failed(error), _) => Err(Stop::Failed(error)),
        (Settled::Now(_) | Settled::Fenced { .. }, _) => Err(Stop::Failed(
            Error::new(
                ErrorKind::Internal,
                "a claim was lost within the transaction that granted it",
            )
            .not_applied(),
        )),
    }
}

/// Number of calls for which a failed statement makes us careful.
const CAREFUL_JOBS: u32 = 64;
/// Messages that are sent at once where each has a savepoint.
const MOST_TURNS: usize = 256;
/// Bytes of a packet that statements fill before the next one begins.
const FULL_BYTES: usize = 500_000;
