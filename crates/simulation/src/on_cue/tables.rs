//! A double of a database that keeps records and rows together. Each message's claim, row and
//! completion are one step, because no other task runs in between.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use semel_core::port::transactional::{
    Application, Applied, Statements, TransactionalStore, Value,
};
use semel_core::{
    Admission, AnyStore, Certainty, Claim, Clock, Outcome, Result, Settled, Settlement, State,
    StateKind, Step, StoreExt,
};

use super::sink::EffectSink;
use super::time::PausedClock;

/// The scripted result of the statements of one granted message.
#[derive(Clone, Copy, Debug)]
pub enum Statement {
    /// They succeed.
    Work,
    /// They fail and are undone; another attempt may succeed.
    Fail,
    /// They fail for good.
    Refuse,
}

/// The database.
pub struct Tables {
    store: AnyStore,
    sink: Arc<EffectSink>,
    script: Mutex<VecDeque<Statement>>,
    bound: Mutex<Vec<Vec<Value>>>,
    clock: PausedClock,
}

impl Tables {
    pub fn new(store: AnyStore, sink: Arc<EffectSink>) -> Self {
        let clock = PausedClock::new();
        Self {
            store,
            sink,
            script: Mutex::default(),
            bound: Mutex::default(),
            clock,
        }
    }

    /// Scripts the results of the next granted messages, one by one.
    pub fn script(&self, statements: impl IntoIterator<Item = Statement>) {
        self.script
            .lock()
            .expect("scripts never panic")
            .extend(statements);
    }

    /// The values of every granted message, in order.
    pub fn bound(&self) -> Vec<Vec<Value>> {
        self.bound.lock().expect("binding never panics").clone()
    }

    async fn apply_one(&self, application: &Application) -> Result<Applied> {
        let admission = self.store.claim_one(application.claim.clone()).await?;
        let Admission::Granted(claim) = admission else {
            return Ok(Applied::NotGranted(admission));
        };
        self.bound
            .lock()
            .expect("binding never panics")
            .push(application.values.to_vec());
        let statement = self.script.lock().expect("scripts never panic").pop_front();
        let window = application.window;
        let error: Box<str> = "a row violates a constraint".into();
        let step = match statement {
            None | Some(Statement::Work) => {
                self.sink.commit(claim.operation.key.as_str());
                Step::Complete {
                    outcome: Outcome::empty(),
                    window,
                }
            }
            Some(Statement::Refuse) if !application.gives_back => Step::Fail {
                error,
                decisive: false,
                window,
            },
            Some(Statement::Fail | Statement::Refuse) => Step::Release {
                error,
                certainty: Certainty::NotApplied,
                after: application.backoff.after(claim.attempt),
                counted: !application.gives_back,
                limits: application.claim.limits,
                window,
            },
        };
        self.settle(claim, step).await
    }

    async fn settle(&self, claim: Claim, step: Step) -> Result<Applied> {
        let Claim {
            operation,
            claim_id,
            takeover,
            ..
        } = claim;
        let settlement = Settlement {
            operation: operation.clone(),
            claim_id,
            step,
        };
        let settled = self.store.settle_one(settlement).await?;
        let Settled::Now(state) = settled else {
            unreachable!("nobody came between the claim and its settlement");
        };
        if state == StateKind::Completed {
            return Ok(Applied::Completed { takeover });
        }
        let record = self.store.get_one(operation).await?;
        let now = self.clock.now();
        let not_before = match record.as_ref().map(|record| record.state) {
            Some(State::Released { not_before }) => not_before,
            _ => now,
        };
        let error = record
            .and_then(|record| record.last_error)
            .unwrap_or_default();
        Ok(Applied::Failed {
            state,
            not_before,
            now,
            error,
        })
    }
}

impl TransactionalStore for Tables {
    async fn prepare(&self, _statements: &Statements) -> Result<()> {
        Ok(())
    }

    async fn apply(
        &self,
        _statements: &Statements,
        batch: Arc<[Application]>,
    ) -> Result<Vec<Applied>> {
        let mut applied = Vec::with_capacity(batch.len());
        for application in &*batch {
            applied.push(self.apply_one(application).await?);
        }
        Ok(applied)
    }
}
