//! Effects in the store's own transaction: claim, run, complete, message by message (class A).
//!
//! The common case pays for no savepoints. The first failed statement has the transaction undone
//! and repeated, this time with a savepoint around each message: a failed statement alone may leave
//! rows behind (`OR FAIL`, `RAISE(FAIL)`), and several statements certainly do. Some failures
//! (`OR ROLLBACK`) take the whole transaction with them, and some show only at the commit (deferred
//! foreign keys); their messages are remembered as failed, and the rest is done without them.
//!
//! # Guarantee   INB-1, INB-2, BAT-1, BAT-2

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::Connection;
use semel_core::port::transactional::{Application, Applied, Statements};
use semel_core::{
    Admission, Certainty, Claim, Error, ErrorKind, OpId, Outcome, Result, Settled, Settlement,
    State, StateKind, Step,
};
use tokio::sync::oneshot;

use crate::error::gone;
use crate::ledger::Ledger;
use crate::sql;
use crate::statements::{self, Bound, ErrorClass, Prepared};
use crate::writer::{Job, Memory, Stop};

/// One call of `apply`.
pub(crate) struct Apply {
    statements: Statements,
    batch: Arc<[Application]>,
    /// The ids and values of the messages in the batch.
    messages: Vec<Message>,
    answers: Vec<Applied>,
    /// Messages that are known to fail in ways that no savepoint contains.
    failed: BTreeMap<usize, Failed>,
    /// Start of the next transaction; all messages before it are committed.
    from: usize,
    /// Set if each message has a transaction of its own, for failures that show only at the commit.
    alone: bool,
    reply: oneshot::Sender<Result<Vec<Applied>>>,
}

struct Message {
    id: OpId,
    values: Box<[Bound]>,
}

/// The failure of one message's statements.
#[derive(Clone)]
struct Failed {
    words: Box<str>,
    may_retry: bool,
}

impl Apply {
    pub(crate) fn new(
        statements: Statements,
        batch: Arc<[Application]>,
        reply: oneshot::Sender<Result<Vec<Applied>>>,
    ) -> Result<Self> {
        let count = statements.params.len();
        if batch.iter().any(|it| it.values.len() != count) {
            let message = "a message does not have one value for each parameter";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let message = |application: &Application| Message {
            id: application.claim.operation.id(),
            values: application.values.iter().map(Bound::from).collect(),
        };
        Ok(Self {
            statements,
            messages: batch.iter().map(message).collect(),
            answers: Vec::with_capacity(batch.len()),
            batch,
            failed: BTreeMap::new(),
            from: 0,
            alone: false,
            reply,
        })
    }
}

impl Job for Apply {
    fn run(&mut self, ledger: &mut Ledger<'_>, memory: &mut Memory) -> Result<(), Stop> {
        self.answers.truncate(self.from);
        let connection = ledger.connection;
        let mut prepared = statements::prepare(connection, &self.statements)?;
        let count = self.messages.len();
        let until = if self.alone {
            count.min(self.from + 1)
        } else {
            count
        };
        ledger.reserve(until - self.from);
        let careful = memory.careful > 0;
        for index in self.from..until {
            let (message, application) = (&self.messages[index], &self.batch[index]);
            let claim = match ledger.claim(message.id, &application.claim)? {
                Admission::Granted(claim) => claim,
                other => {
                    self.answers.push(Applied::NotGranted(other));
                    continue;
                }
            };
            let failed = match self.failed.get(&index) {
                Some(failed) => Err(failed.clone()),
                None if careful => match run_guarded(connection, &mut prepared, &message.values) {
                    Ok(()) => Ok(()),
                    Err(error) => {
                        let failed = self.judge(error, connection)?;
                        if connection.is_autocommit() {
                            self.failed.insert(index, failed);
                            return Err(Stop::Again);
                        }
                        Err(failed)
                    }
                },
                None if run(&mut prepared, &message.values).is_ok() => Ok(()),
                None => {
                    memory.careful = CAREFUL_JOBS;
                    return Err(Stop::Again);
                }
            };
            let answer = settle(ledger, message.id, application, claim, failed)?;
            self.answers.push(answer);
        }
        memory.careful = memory.careful.saturating_sub(1);
        Ok(())
    }

    fn committed(&mut self) -> bool {
        self.from = self.answers.len();
        self.from == self.messages.len()
    }

    fn refused(&mut self, why: &rusqlite::Error) -> bool {
        if self.alone || self.messages.len() == 1 {
            let words = statements::words(why);
            self.failed
                .insert(
                    self.from,
                    Failed {
                        words,
                        may_retry: false,
                    },
                )
                .is_none()
        } else {
            self.alone = true;
            true
        }
    }

    fn answer(self: Box<Self>, done: Result<()>) {
        let answer = match done {
            Ok(()) if self.answers.len() == self.messages.len() => Ok(self.answers),
            Ok(()) => Err(gone()),
            // Some are committed on their own: the error of the last message is not true of all.
            Err(error) if self.from > 0 => Err(Error::new(
                ErrorKind::Unavailable,
                "a batch was applied in part",
            )
            .with_code(error.code())
            .with_source(error)),
            Err(error) => Err(error),
        };
        // The caller may have stopped waiting.
        let _ = self.reply.send(answer);
    }
}

impl Apply {
    fn judge(&self, error: rusqlite::Error, connection: &Connection) -> Result<Failed, Stop> {
        match statements::judge(error, connection, &self.statements) {
            ErrorClass::Hopeless(words) => Ok(Failed {
                words,
                may_retry: false,
            }),
            ErrorClass::Passing(words) => Ok(Failed {
                words,
                may_retry: true,
            }),
            ErrorClass::Batch(error) => Err(Stop::Failed(error)),
        }
    }
}

/// Completes the claim, or reports the failure of its statements.
fn settle(
    ledger: &mut Ledger<'_>,
    id: OpId,
    application: &Application,
    claim: Claim,
    ran: Result<(), Failed>,
) -> Result<Applied> {
    let (takeover, window) = (claim.takeover, application.window);
    let (step, error) = match ran {
        Ok(()) => (
            Step::Complete {
                outcome: Outcome::empty(),
                window,
            },
            None,
        ),
        Err(Failed {
            words,
            may_retry: false,
        }) if !application.gives_back => (
            Step::Fail {
                decisive: false,
                error: words.clone(),
                window,
            },
            Some(words),
        ),
        Err(Failed {
            words,
            may_retry: _,
        }) => {
            let record = ledger.record(id, &claim.operation)?;
            let failed = record.map_or(1, semel_core::Record::failed_attempts);
            let step = Step::Release {
                error: words.clone(),
                certainty: Certainty::NotApplied,
                after: application.backoff.after(failed),
                counted: !application.gives_back,
                limits: application.claim.limits,
                window,
            };
            (step, Some(words))
        }
    };
    let Claim {
        operation,
        claim_id,
        ..
    } = claim;
    let settlement = Settlement {
        operation,
        claim_id,
        step,
    };
    let settled = ledger.settle(id, &settlement)?;
    let now = ledger.now;
    match (settled, error) {
        (Settled::Now(StateKind::Completed), None) => Ok(Applied::Completed { takeover }),
        (Settled::Now(state), Some(error)) => {
            let record = ledger.record(id, &settlement.operation)?;
            let not_before = match record.map(|record| record.state) {
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
        (Settled::Failed(error), _) => Err(error),
        (Settled::Now(_) | Settled::Fenced { .. }, _) => Err(Error::new(
            ErrorKind::Internal,
            "a claim was lost within the transaction that granted it",
        )
        .not_applied()),
    }
}

fn run(prepared: &mut [Prepared<'_>], values: &[Bound]) -> rusqlite::Result<()> {
    prepared
        .iter_mut()
        .try_for_each(|statement| statement.run(values))
}

/// Runs the statements so that nothing of them stays if one fails.
fn run_guarded(
    connection: &Connection,
    prepared: &mut [Prepared<'_>],
    values: &[Bound],
) -> rusqlite::Result<()> {
    let execute = |text| connection.prepare_cached(text)?.raw_execute().map(drop);
    execute(sql::MESSAGE_BEGIN)?;
    let ran = run(prepared, values);
    if ran.is_err() && !connection.is_autocommit() {
        execute(sql::MESSAGE_UNDO)?;
    }
    if !connection.is_autocommit() {
        execute(sql::MESSAGE_END)?;
    }
    ran
}

/// Number of jobs for which a failed statement makes us careful.
const CAREFUL_JOBS: u32 = 64;
