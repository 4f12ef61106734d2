//! Steps of claims: renew, start, complete, release, fail; one by one, or a batch of them.

pub(crate) mod request;

pub(crate) use request::Verb;

use std::sync::Arc;

use axum::http::StatusCode;
use semel_core::{
    Code, Error, ErrorKind, Operation, Renewed, Settled, Settlement, Start, StateKind, Step, Store,
};
use semel_http::body::Text;
use semel_http::member::{INVALID, document, members, required};
use semel_http::{Caller, Problem};

use crate::answer::{Answers, Instant, Stepped, internal};
use crate::claims::MOST_ITEMS;
use crate::handle::Handle;
use crate::service::Service;
use crate::trace::{RequestTrace, StoreCall};
use request::{Asked, NO_CLAIM, Report, read};

/// The member of a batch of steps.
pub(crate) const BATCH_MEMBERS: [&str; 1] = ["settlements"];

impl<S: Store + Clone> Service<S> {
    /// Answers one step of the claim that `claim` names.
    pub(crate) async fn step(
        &self,
        caller: &Caller,
        trace: Option<&RequestTrace>,
        (verb, claim): (Verb, &str),
        body: Text,
    ) -> Result<Stepped, Problem> {
        let no_claim = || Problem::new(StatusCode::BAD_REQUEST, INVALID, NO_CLAIM);
        let handle = Handle::decode(claim).ok_or_else(no_claim)?;
        let named = Some((handle, verb));
        let mut asked = read(document(&body)?.root(), "", named, caller, &self.settings)?;
        drop(body);
        asked.trace = self.trace_of(trace, asked.handle.claim_id);
        let mut answers = self.report(&[&asked], false).await.into_iter();
        let missing = || Err(internal("the store left the step without an answer"));
        answers.next().unwrap_or_else(missing)
    }

    /// Answers a batch of steps.
    pub(crate) async fn settle_batch(
        &self,
        caller: &Caller,
        trace: Option<&RequestTrace>,
        body: Text,
    ) -> Result<Answers<Stepped>, Problem> {
        let mut items = self.read_steps(caller, &body)?;
        drop(body);
        for asked in items.iter_mut().filter_map(|it| it.as_mut().ok()) {
            asked.trace = self.trace_of(trace, asked.handle.claim_id);
        }
        let asked: Vec<&Asked> = items.iter().filter_map(|it| it.as_ref().ok()).collect();
        let mut answers = self.report(&asked, true).await.into_iter();
        let answers = items.into_iter().map(|item| {
            item.and_then(|_| {
                let missing = || Err(internal("the store left an item without an answer"));
                answers.next().unwrap_or_else(missing)
            })
        });
        Ok(answers.collect())
    }

    fn read_steps(
        &self,
        caller: &Caller,
        body: &[u8],
    ) -> Result<Vec<Result<Asked, Problem>>, Problem> {
        let document = document(body)?;
        let [settlements] = members(document.root(), "", BATCH_MEMBERS)?;
        let settlements = required(settlements, "", "settlements")?.elements(MOST_ITEMS)?;
        let read = |(index, node)| {
            let base = format!("/settlements/{index}");
            read(node, &base, None, caller, &self.settings)
        };
        Ok(settlements.into_iter().enumerate().map(read).collect())
    }

    /// Reports steps in their order, which a batch has many of: neighbours that the store takes in one call go down in one.
    async fn report(&self, asked: &[&Asked], is_batch: bool) -> Vec<Result<Stepped, Problem>> {
        let is_renewal = |asked: &&Asked| matches!(asked.report, Report::Renew(_));
        let mut answers = Vec::with_capacity(asked.len());
        for run in asked.chunk_by(|one, other| is_renewal(one) == is_renewal(other)) {
            let time = || self.time_of(run.first().and_then(|it| it.trace.as_ref()));
            let mut call = StoreCall::default();
            call.begins(time());
            let answered = if run.first().is_some_and(is_renewal) {
                self.renew(run).await
            } else {
                self.settle(run).await
            };
            call.ends(time());
            for (asked, answer) in run.iter().zip(&answered) {
                self.trace_step(asked, answer.as_ref(), call, is_batch);
            }
            answers.extend(answered);
        }
        answers
    }

    async fn settle(&self, asked: &[&Asked]) -> Vec<Result<Stepped, Problem>> {
        let unsaid = self.say_begun(asked).await;
        let reported = asked.iter().zip(&unsaid);
        let steps = reported.filter_map(|(asked, unsaid)| match (&asked.report, unsaid) {
            (Report::Settle { step, .. }, None) => Some(step.clone()),
            (Report::Settle { .. }, Some(_)) | (Report::Renew(_), _) => None,
        });
        let steps: Arc<[Settlement]> = steps.collect();
        let settled = if steps.is_empty() {
            Ok(Vec::new())
        } else {
            self.store.settle(steps).await
        };
        let settled = match settled {
            Ok(settled) => settled,
            Err(error) => return asked.iter().map(|it| Err(it.failed(&error))).collect(),
        };
        let mut settled = settled.into_iter();
        let answer = |(asked, unsaid): (&&Asked, Option<Error>)| {
            if let Some(error) = unsaid {
                return Err(asked.failed(&error));
            }
            let missing = || internal("the store left the step without an answer");
            let settled = settled.next().ok_or_else(missing)?;
            self.tell_settled(asked, &settled);
            match settled {
                Settled::Now(state) => {
                    self.wake_for(&asked.handle.operation, state);
                    Ok(Stepped {
                        state,
                        lease_until: None,
                    })
                }
                Settled::Fenced { found } => Err(lost(asked, found)),
                Settled::Failed(error) => Err(asked.failed(&error)),
            }
        };
        asked.iter().zip(unsaid).map(answer).collect()
    }

    /// Says of the effects that may have been applied, and that nobody marked, that they have begun. Returns the errors of
    /// those that are not marked for certain: their reports must not follow, or the record would say that the effect
    /// surely did not happen. What a claim that is lost says counts no more than its report.
    async fn say_begun(&self, asked: &[&Asked]) -> Vec<Option<Error>> {
        let mut unsaid = vec![None; asked.len()];
        let (mut places, mut starts) = (Vec::new(), Vec::new());
        for (place, asked) in asked.iter().enumerate() {
            let Report::Settle {
                start: Some(recovery),
                step,
            } = &asked.report
            else {
                continue;
            };
            places.push(place);
            starts.push(Settlement {
                operation: step.operation.clone(),
                claim_id: step.claim_id,
                step: Step::Start {
                    recovery: *recovery,
                    has_begun: true,
                },
            });
        }
        if starts.is_empty() {
            return unsaid;
        }
        let silent = || Error::new(ErrorKind::Internal, "the store left a start unanswered");
        match self.store.settle(starts.into()).await {
            Ok(said) => {
                let mut said = said.into_iter();
                for place in places {
                    unsaid[place] = match said.next() {
                        Some(Settled::Failed(error)) => Some(error),
                        Some(_) => None,
                        None => Some(silent()),
                    };
                }
            }
            Err(error) => {
                for place in places {
                    unsaid[place] = Some(error.clone());
                }
            }
        }
        unsaid
    }

    async fn renew(&self, asked: &[&Asked]) -> Vec<Result<Stepped, Problem>> {
        let renewals = asked.iter().filter_map(|asked| match &asked.report {
            Report::Renew(renewal) => Some(renewal.clone()),
            Report::Settle { .. } => None,
        });
        let renewed = match self.store.renew(renewals.collect()).await {
            Ok(renewed) => renewed,
            Err(error) => return asked.iter().map(|it| Err(it.failed(&error))).collect(),
        };
        let mut answers = Vec::with_capacity(asked.len());
        let mut states = self.states(asked, &renewed).await.into_iter();
        for (asked, renewed) in asked.iter().zip(renewed) {
            let state = states.next().unwrap_or(StateKind::Claimed);
            answers.push(match renewed {
                Renewed::Until(until) => Ok(Stepped {
                    state,
                    lease_until: Some(Instant(until)),
                }),
                Renewed::Lost { found } => {
                    self.tell_lost(asked, found);
                    Err(lost(asked, found))
                }
                Renewed::Failed(error) => Err(asked.failed(&error)),
            });
        }
        answers
    }

    /// Returns the states of renewed claims. One of a class is started; of others the store knows whether they are.
    async fn states(&self, asked: &[&Asked], renewed: &[Renewed]) -> Vec<StateKind> {
        let is_open = |asked: &Asked, renewed: &Renewed| {
            asked.handle.start == Start::Unmarked && matches!(renewed, Renewed::Until(_))
        };
        let open: Arc<[Operation]> = asked
            .iter()
            .zip(renewed)
            .filter(|(asked, renewed)| is_open(asked, renewed))
            .map(|(asked, _)| asked.handle.operation.clone())
            .collect();
        let records = self.records(open).await.unwrap_or_default();
        let mut records = records.into_iter();
        let states = asked.iter().zip(renewed).map(|(asked, renewed)| {
            if !is_open(asked, renewed) {
                return StateKind::Started;
            }
            let record = records.next().flatten();
            record.map_or(StateKind::Claimed, |record| record.state.kind())
        });
        states.collect()
    }

    /// Wakes the claims that wait for an operation, unless it is still held.
    fn wake_for(&self, operation: &Operation, state: StateKind) {
        match state {
            StateKind::Claimed | StateKind::Started => {}
            StateKind::Released | StateKind::Completed | StateKind::Dead | StateKind::InDoubt => {
                if !self.waiters.is_empty() {
                    self.waiters.wake(operation.id());
                }
            }
        }
    }
}

/// Reports that another claim owns the operation, or none does.
fn lost(asked: &Asked, found: Option<StateKind>) -> Problem {
    // A completion of the claim that is in doubt would have been taken.
    let is_doubt = found == Some(StateKind::InDoubt) && !asked.is_completion();
    let detail = if is_doubt {
        "the lease ended and the operation is in doubt: if the effect happened, complete it with this claim all the \
         same, which settles the doubt unless another attempt came in between"
    } else {
        "another claim owns the operation, or none does; discard the result"
    };
    let code = Code::ClaimLost.as_str();
    let problem = Problem::new(StatusCode::CONFLICT, code, detail);
    match found {
        Some(state) => problem
            .with("operation_id", asked.operation_id())
            .with("state", state.as_str()),
        None => problem,
    }
}
