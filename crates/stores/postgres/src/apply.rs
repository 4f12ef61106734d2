//! Effects in the store's own transaction: claim, run, complete (class A).
//!
//! In the usual case a batch is claimed and completed in one write before its statements run, so that other claimants
//! of the same keys wait, or are waited for, before anything happens; then all statements go out without waiting for
//! each other's answers. The first failure has everything undone and repeated with a savepoint around each message, and
//! with its statements prepared anew. A failure that shows only at the commit (a deferred constraint) has each message
//! repeated in a transaction of its own.
//!
//! # Guarantee   INB-1, INB-2, BAT-1, BAT-2

use std::pin::Pin;
use std::sync::atomic::Ordering;

use deadpool_postgres::tokio_postgres::types::ToSql;
use deadpool_postgres::{Object, Transaction};
use futures_util::future::{MaybeDone, maybe_done};
use semel_core::port::transactional::{Application, Applied, Statements};
use semel_core::{
    Admission, Backoff, Certainty, Claim, ClaimRequest, Error, ErrorKind, Operation, Outcome,
    Record, Result, Settled, Settlement, State, StateKind, Step, Window,
};

use crate::error::{is_passing, of_commit, one_line, uncommitted};
use crate::locked::{Locked, Stop, Wanted};
use crate::session::{Session, Tries};
use crate::statements::{
    Bound, ErrorClass, Prepared, classify, is_hopeless, prepare, prepare_anew,
};

/// Applies a batch.
pub(crate) async fn apply(
    session: &Session,
    statements: &Statements,
    batch: &[Application],
) -> Result<Vec<Applied>> {
    let count = statements.params.len();
    if batch.iter().any(|it| it.values.len() != count) {
        let message = "a message does not have one value for each parameter";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    let messages: Vec<Message<'_>> = batch.iter().map(Message::of).collect();
    if let Ended::Answered(answers) = in_one(session, statements, &messages, None).await? {
        return Ok(answers);
    }
    let mut answers: Vec<Applied> = Vec::with_capacity(messages.len());
    for message in &messages {
        let message = std::slice::from_ref(message);
        let ended = match in_one(session, statements, message, None).await {
            Ok(Ended::Refused(words)) => in_one(session, statements, message, Some(&words)).await,
            ended => ended,
        };
        match ended {
            Ok(Ended::Answered(some)) => answers.extend(some),
            Ok(Ended::Refused(words)) => return Err(Error::new(ErrorKind::Internal, words)),
            // Some are committed on their own: the error of the last message is not true of all.
            Err(error) if !answers.is_empty() => {
                return Err(
                    Error::new(ErrorKind::Unavailable, "a batch was applied in part")
                        .with_code(error.code())
                        .with_source(error),
                );
            }
            Err(error) => return Err(error),
        }
    }
    Ok(answers)
}

struct Message<'b> {
    claim: &'b ClaimRequest,
    values: Box<[Bound]>,
    window: Window,
    backoff: Backoff,
    gives_back: bool,
}

impl<'b> Message<'b> {
    fn of(application: &'b Application) -> Self {
        Self {
            claim: &application.claim,
            values: application.values.iter().map(Bound::from).collect(),
            window: application.window,
            backoff: application.backoff,
            gives_back: application.gives_back,
        }
    }
}

/// The end of a batch in one transaction.
enum Ended {
    /// The transaction is committed.
    Answered(Vec<Applied>),
    /// The server refused the commit, in these words; nothing was applied.
    Refused(Box<str>),
}

/// Reason why a transaction did not come to its commit.
enum Break {
    /// A statement failed; the batch is repeated with care.
    Careful,
    Stop(Stop),
}

impl<S: Into<Stop>> From<S> for Break {
    fn from(stop: S) -> Self {
        Self::Stop(stop.into())
    }
}

/// Applies a batch in one transaction; `refused` is the server's reason for refusing the commit of this one message.
async fn in_one(
    session: &Session,
    statements: &Statements,
    messages: &[Message<'_>],
    refused: Option<&str>,
) -> Result<Ended> {
    let mut careful = refused.is_some() || session.careful.load(Ordering::Relaxed) > 0;
    let mut tries = Tries::begin();
    loop {
        let mut client = session.client().await?;
        let prepared = if careful {
            prepare_anew(&client, statements).await?
        } else {
            prepare(&client, statements).await?
        };
        let stop = match attempt(session, &mut client, &prepared, messages, careful, refused).await
        {
            Ok(ended) => {
                if careful {
                    let less = |left: u32| Some(left.saturating_sub(1));
                    let _ =
                        session
                            .careful
                            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
                }
                return ended;
            }
            Err(Break::Careful) => {
                session.careful.store(CAREFUL_BATCHES, Ordering::Relaxed);
                careful = true;
                continue;
            }
            Err(Break::Stop(stop)) => stop,
        };
        drop(client);
        let may_pass = match &stop {
            Stop::Server(error) => is_passing(error),
            Stop::Failed(_) => false,
            Stop::Again => true,
        };
        if !may_pass || !tries.are_left() {
            return Err(stop.into_error());
        }
        tries.pause().await;
    }
}

async fn attempt(
    session: &Session,
    client: &mut Object,
    prepared: &[Prepared],
    messages: &[Message<'_>],
    careful: bool,
    refused: Option<&str>,
) -> Result<Result<Ended>, Break> {
    let transaction = client.transaction().await?;
    let done = if careful {
        carefully(session, &transaction, prepared, messages, refused).await
    } else {
        at_once(session, &transaction, prepared, messages).await
    };
    match done {
        Ok(answers) => match transaction.commit().await {
            Ok(()) => Ok(Ok(Ended::Answered(answers))),
            Err(error) if is_passing(&error) => Err(error.into()),
            Err(error) => Ok(match error.as_db_error() {
                Some(db) if is_hopeless(db.code().code()) => {
                    Ok(Ended::Refused(one_line(db.message()).into()))
                }
                _ => Err(of_commit(error)),
            }),
        },
        Err(stop) => {
            // The next user of the connection finds it broken.
            let _ = transaction.rollback().await;
            Err(stop)
        }
    }
}

/// Claims and completes everything, then runs all statements.
async fn at_once(
    session: &Session,
    transaction: &Transaction<'_>,
    prepared: &[Prepared],
    messages: &[Message<'_>],
) -> Result<Vec<Applied>, Break> {
    let mut locked = lock(session, transaction, messages).await?;
    let mut answers = Vec::with_capacity(messages.len());
    let mut granted = Vec::new();
    for message in messages {
        answers.push(match claim(&mut locked, message) {
            Admission::Granted(claim) => {
                granted.push(message);
                settle(&mut locked, message, claim, Ok(()))?
            }
            other => Applied::NotGranted(other),
        });
    }
    locked.flush().await?;
    for some in granted.chunks(IN_FLIGHT) {
        run_all(transaction, prepared, some).await?;
    }
    Ok(answers)
}

/// Runs the statements of messages in their order, without waiting for answers in between.
async fn run_all(
    transaction: &Transaction<'_>,
    prepared: &[Prepared],
    messages: &[&Message<'_>],
) -> Result<(), Break> {
    let parameters: Vec<Vec<&(dyn ToSql + Sync)>> = messages
        .iter()
        .flat_map(|message| {
            prepared
                .iter()
                .map(|statement| parameters(statement, message))
        })
        .collect();
    let statements = messages.iter().flat_map(|_| prepared.iter());
    let mut running: Vec<Pin<Box<MaybeDone<_>>>> = Vec::with_capacity(parameters.len());
    for (one, parameters) in statements.zip(&parameters) {
        let mut one = Box::pin(maybe_done(transaction.execute(&one.statement, parameters)));
        // Sent with its first poll, so that they go out in this order.
        let _ = futures_util::poll!(one.as_mut());
        running.push(one);
    }
    for mut one in running {
        one.as_mut().await;
        match one.as_mut().take_output() {
            Some(Ok(_)) => {}
            Some(Err(error)) if error.as_db_error().is_some() && !is_passing(&error) => {
                return Err(Break::Careful);
            }
            Some(Err(error)) => return Err(error.into()),
            None => return Err(Stop::Failed(crate::error::gone()).into()),
        }
    }
    Ok(())
}

fn parameters<'m>(prepared: &Prepared, message: &'m Message<'_>) -> Vec<&'m (dyn ToSql + Sync)> {
    let value = |place: &usize| -> &'m (dyn ToSql + Sync) { &message.values[*place] };
    prepared.values.iter().map(value).collect()
}

/// Applies one message after the other, each with a savepoint.
async fn carefully(
    session: &Session,
    transaction: &Transaction<'_>,
    prepared: &[Prepared],
    messages: &[Message<'_>],
    refused: Option<&str>,
) -> Result<Vec<Applied>, Break> {
    let mut locked = lock(session, transaction, messages).await?;
    let mut answers = Vec::with_capacity(messages.len());
    for message in messages {
        let claim = match claim(&mut locked, message) {
            Admission::Granted(claim) => claim,
            other => {
                answers.push(Applied::NotGranted(other));
                continue;
            }
        };
        // The key is taken before anything happens.
        locked.write().await?;
        let ran = match refused {
            Some(words) => Err(Failed {
                words: words.into(),
                may_retry: false,
            }),
            None => run_guarded(transaction, prepared, message).await?,
        };
        answers.push(settle(&mut locked, message, claim, ran)?);
    }
    locked.flush().await?;
    Ok(answers)
}

/// The failure of one message's statements.
struct Failed {
    words: Box<str>,
    may_retry: bool,
}

/// Runs the statements so that nothing of them stays if one fails.
async fn run_guarded(
    transaction: &Transaction<'_>,
    prepared: &[Prepared],
    message: &Message<'_>,
) -> Result<Result<(), Failed>, Break> {
    transaction.batch_execute("SAVEPOINT semel_message").await?;
    for statement in prepared {
        let parameters = parameters(statement, message);
        let Err(error) = transaction.execute(&statement.statement, &parameters).await else {
            continue;
        };
        if is_passing(&error) {
            return Err(error.into());
        }
        let failed = match classify(error) {
            ErrorClass::Hopeless(words) => Failed {
                words,
                may_retry: false,
            },
            ErrorClass::Passing(words) => Failed {
                words,
                may_retry: true,
            },
            ErrorClass::Batch(error) => return Err(Stop::Failed(uncommitted(error)).into()),
        };
        transaction
            .batch_execute("ROLLBACK TO semel_message; RELEASE semel_message")
            .await?;
        return Ok(Err(failed));
    }
    transaction.batch_execute("RELEASE semel_message").await?;
    Ok(Ok(()))
}

async fn lock<'t>(
    session: &'t Session,
    transaction: &'t Transaction<'_>,
    messages: &[Message<'_>],
) -> Result<Locked<'t, Transaction<'t>>, Stop> {
    let operations: Vec<&Operation> = messages.iter().map(|it| &it.claim.operation).collect();
    let gates = messages.iter().filter_map(|message| {
        let gate = message.claim.gate.as_ref()?;
        Some((&message.claim.operation.scope, &gate.entity))
    });
    let wanted = Wanted {
        operations,
        entities: gates.collect(),
        tokens: messages.len(),
        outcomes: messages.iter().any(|message| message.claim.wants_outcome),
        given_now: session.given_now(),
    };
    Locked::begin(transaction, &session.texts, wanted).await
}

fn claim<C: crate::connection::Runs>(
    locked: &mut Locked<'_, C>,
    message: &Message<'_>,
) -> Admission {
    let id = message.claim.operation.id();
    let answer = locked.ledger.claim(id, message.claim, &mut locked.tokens);
    answer.unwrap_or_else(|| Admission::Failed(crate::error::contended()))
}

/// Completes the claim, or reports the failure of its statements.
fn settle<C: crate::connection::Runs>(
    locked: &mut Locked<'_, C>,
    message: &Message<'_>,
    claim: Claim,
    ran: Result<(), Failed>,
) -> Result<Applied, Stop> {
    let (takeover, window) = (claim.takeover, message.window);
    let id = claim.operation.id();
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
    let settled = locked.ledger.settle(id, &settlement);
    let now = locked.now();
    match (settled, error) {
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
        (Settled::Now(_) | Settled::Fenced { .. }, _) => {
            let message = "a claim was lost within the transaction that granted it";
            Err(Stop::Failed(
                Error::new(ErrorKind::Internal, message).not_applied(),
            ))
        }
    }
}

/// Statements that are in flight at once.
const IN_FLIGHT: usize = 512;
/// Number of batches for which a failed statement makes a store careful.
const CAREFUL_BATCHES: u32 = 64;
