//! Claims: a request becomes a [`ClaimRequest`], the admission of the store an answer.

pub(crate) mod request;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use semel_core::{
    Admission, ClaimRequest, Code, Duplicate, Error, ErrorKind, Operation, Outcome, Renewal,
    Renewed, State, Store, StoreExt, Timestamp,
};
use semel_http::body::Text;
use semel_http::member::{Fault, document, members, required};
use semel_http::{Caller, Problem};
use tokio::time::{sleep, timeout};

use crate::answer::{Answers, Decision, internal};
use crate::service::Service;
use crate::trace::{ClaimFacts, RequestTrace, StoreCall};
use request::{Asked, Completed};

/// The member of a batch of claims.
pub(crate) const BATCH_MEMBERS: [&str; 1] = ["claims"];

/// The most items of a batch.
pub(crate) const MOST_ITEMS: usize = 1_000;

impl<S: Store + Clone> Service<S> {
    /// Answers one claim, which may wait.
    pub(crate) async fn claim(
        &self,
        caller: &Caller,
        trace: Option<&RequestTrace>,
        body: Text,
    ) -> Result<Decision, Problem> {
        let mut asked = Asked::read(document(&body)?.root(), "", caller, &self.settings)?;
        // Nobody's body is kept while its claim waits.
        drop(body);
        asked.trace = self.trace_of(trace, asked.request.claim_id);
        let mut call = StoreCall::default();
        let (decided, answer) = match self.decide(&mut asked, &mut call).await {
            Ok((admission, completed)) => {
                let decided = ClaimFacts::of(&admission);
                (decided, asked.answer(admission, completed))
            }
            Err(problem) => (ClaimFacts::UNANSWERED, Err(problem)),
        };
        self.trace_claim(&asked, decided, call, answer.as_ref().err());
        answer
    }

    /// Decides about one claim; returns with its admission what is read of a record.
    async fn decide(
        &self,
        asked: &mut Asked,
        call: &mut StoreCall,
    ) -> Result<(Admission, Completed), Problem> {
        let mut admission = self.admit_one(asked, call).await?;
        self.tell_decision(asked, &admission);
        let wait = asked
            .wait
            .as_ref()
            .map_or(Duration::ZERO, |(wait, _)| *wait);
        if let Admission::Busy { until, now } = admission
            && !wait.is_zero()
        {
            admission = self.wait(asked, wait, (until, now), call).await?;
            if !matches!(admission, Admission::Busy { .. }) {
                self.tell_decision(asked, &admission);
            }
        }
        let mut completed = Completed::default();
        if let Admission::Replay { .. } = admission {
            let read = self.store.get_one(asked.request.operation.clone());
            if let Ok(Ok(Some(record))) = timeout(READ_WITHIN, read).await
                && let State::Completed { .. } = record.state
            {
                completed = Completed::of(&record);
            } else {
                // Only the time is left out, if the record cannot be read: the outcome comes with the decision too.
                asked.request.wants_outcome = true;
                admission = self.admit_one(asked, call).await?;
                if !matches!(admission, Admission::Replay { .. }) {
                    // The record was forgotten meanwhile.
                    self.tell_decision(asked, &admission);
                }
            }
        }
        Ok((admission, completed))
    }

    /// Answers a batch of claims.
    pub(crate) async fn claim_batch(
        &self,
        caller: &Caller,
        trace: Option<&RequestTrace>,
        body: Text,
    ) -> Result<Answers<Decision>, Problem> {
        let mut items = self.read_batch(caller, &body)?;
        drop(body);
        for asked in items.iter_mut().filter_map(|it| it.as_mut().ok()) {
            asked.trace = self.trace_of(trace, asked.request.claim_id);
        }
        let asked: Vec<&Asked> = items.iter().filter_map(|it| it.as_ref().ok()).collect();
        let time = || self.time_of(asked.first().and_then(|it| it.trace.as_ref()));
        let mut call = StoreCall::default();
        call.begins(time());
        let admitted = self.admit(&asked).await;
        call.ends(time());
        let admissions = match admitted {
            Ok(admissions) => admissions,
            Err(error) => {
                let problem = Problem::from(&error);
                for asked in &asked {
                    self.trace_claim(asked, ClaimFacts::UNANSWERED, call, Some(&problem));
                }
                let id = |item: &Result<Asked, Problem>| {
                    item.as_ref().ok().map(|it| it.request.claim_id.to_string())
                };
                let ids: Vec<Option<String>> = items.iter().map(id).collect();
                return Err(problem.with("claim_ids", ids));
            }
        };
        for (asked, admission) in asked.iter().zip(&admissions) {
            self.tell_decision(asked, admission);
            self.trace_claim(asked, ClaimFacts::of(admission), call, None);
        }
        let completed = self.completed(&asked, &admissions).await;
        let mut decided = asked
            .iter()
            .zip(admissions)
            .zip(completed)
            .map(|((asked, admission), completed)| asked.answer(admission, completed))
            .collect::<Vec<_>>()
            .into_iter();
        let answers = items.into_iter().map(|item| {
            item.and_then(|_| {
                let missing = || Err(internal("the store left an item without an answer"));
                decided.next().unwrap_or_else(missing)
            })
        });
        Ok(answers.collect())
    }

    fn read_batch(
        &self,
        caller: &Caller,
        body: &[u8],
    ) -> Result<Vec<Result<Asked, Problem>>, Problem> {
        let document = document(body)?;
        let [claims] = members(document.root(), "", BATCH_MEMBERS)?;
        let claims = required(claims, "", "claims")?.elements(MOST_ITEMS)?;
        let read = |(index, node)| {
            let base = format!("/claims/{index}");
            let asked = Asked::read(node, &base, caller, &self.settings)?;
            match asked.wait {
                None => Ok(asked),
                Some((_, pointer)) => {
                    Err(Fault::new(pointer, "a claim of a batch does not wait").into())
                }
            }
        };
        Ok(claims.into_iter().enumerate().map(read).collect())
    }

    async fn admit_one(&self, asked: &Asked, call: &mut StoreCall) -> Result<Admission, Problem> {
        call.begins(self.time_of(asked.trace.as_ref()));
        let admissions = self.admit(&[asked]).await;
        call.ends(self.time_of(asked.trace.as_ref()));
        let admissions = admissions.map_err(|error| asked.unanswered(&error))?;
        let missing = || internal("the store left the claim without an answer");
        admissions.into_iter().next().ok_or_else(missing)
    }

    /// Asks the store. A claim that it had granted before is renewed: its lease may have ended while the answer was
    /// lost, and no effect may begin under a lease that another claimant can take.
    async fn admit(&self, asked: &[&Asked]) -> semel_core::Result<Vec<Admission>> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let requests: Arc<[ClaimRequest]> = asked.iter().map(|it| it.request.clone()).collect();
        let mut admissions = self.store.claim(requests).await?;
        self.refuse_shared_ids(asked, &mut admissions).await?;
        let resumed = |(index, admission): (usize, &Admission)| match admission {
            Admission::Granted(claim) if claim.resumed => Some(index),
            _ => None,
        };
        let resumed: Vec<usize> = admissions
            .iter()
            .enumerate()
            .filter_map(resumed)
            .filter(|index| *index < asked.len())
            .collect();
        if resumed.is_empty() {
            return Ok(admissions);
        }
        let renewals: Arc<[Renewal]> = resumed
            .iter()
            .map(|&index| {
                let request = &asked[index].request;
                Renewal {
                    operation: request.operation.clone(),
                    claim_id: request.claim_id,
                    lease: request.lease,
                }
            })
            .collect();
        let renewed = self.store.renew(renewals).await?;
        for (index, renewed) in resumed.into_iter().zip(renewed) {
            match (renewed, &mut admissions[index]) {
                (Renewed::Until(until), Admission::Granted(claim)) => claim.lease_until = until,
                (Renewed::Failed(error), admission) => *admission = Admission::Failed(error),
                // Another claimant was faster: the claim asks like a new one.
                (Renewed::Lost { .. } | Renewed::Until(_), admission) => {
                    let request = asked[index].request.clone();
                    *admission = self.store.claim_one(request).await?;
                }
            }
        }
        Ok(admissions)
    }

    /// Refuses to give a claim back to a request with a fingerprint where the first one had none, or the other way
    /// round: it comes from somebody else, who uses the same claim id.
    async fn refuse_shared_ids(
        &self,
        asked: &[&Asked],
        admissions: &mut [Admission],
    ) -> semel_core::Result<()> {
        let is_resumed =
            |admission: &Admission| matches!(admission, Admission::Granted(claim) if claim.resumed);
        let mut resumed: Vec<_> = asked
            .iter()
            .zip(admissions)
            .filter(|(_, admission)| is_resumed(admission))
            .collect();
        let operations = resumed
            .iter()
            .map(|(asked, _)| asked.request.operation.clone());
        let records = self.records(operations.collect()).await?;
        for ((asked, admission), record) in resumed.iter_mut().zip(records) {
            let Some(record) = record else {
                continue;
            };
            let request = &asked.request;
            if record.claim_id == request.claim_id
                && record.fingerprint.is_some() != request.fingerprint.is_some()
            {
                **admission = Admission::Conflict {
                    duplicate: Duplicate::Unknown,
                    first: record.members,
                };
            }
        }
        Ok(())
    }

    /// Asks again until the key is free or finished, the time is over, or the server stops.
    async fn wait(
        &self,
        asked: &Asked,
        wait: Duration,
        (mut until, mut now): (Timestamp, Timestamp),
        call: &mut StoreCall,
    ) -> Result<Admission, Problem> {
        let mut deadline = pin!(sleep(wait));
        let mut stop = self.settings.stop.clone();
        let mut stopping = pin!(async move {
            if let Some(stop) = &mut stop
                && stop.wait_for(|stop| *stop).await.is_ok()
            {
                return;
            }
            std::future::pending::<()>().await;
        });
        let Some(mut seat) = self.waiters.enter(asked.request.operation.id()) else {
            return Ok(Admission::Busy { until, now });
        };
        loop {
            // Only pauses are cut short: a store call whose answer nobody hears may have granted the claim.
            tokio::select! {
                biased;
                () = &mut stopping => return Ok(Admission::Busy { until, now }),
                () = &mut deadline => return Ok(Admission::Busy { until, now }),
                () = seat.pause(until.since(now)) => {}
            }
            match self.admit_one(asked, call).await? {
                Admission::Busy {
                    until: later,
                    now: then,
                } => (until, now) = (later, then),
                granted @ Admission::Granted(_) => return Ok(granted),
                decided => {
                    seat.wake_others();
                    return Ok(decided);
                }
            }
        }
    }

    /// Reads the outcomes of the replays among these admissions, a few records at a time, until an answer has as many
    /// bytes of them as it may; the others are to be asked for alone.
    async fn completed(&self, asked: &[&Asked], admissions: &[Admission]) -> Vec<Completed> {
        let mut completed: Vec<_> = asked.iter().map(|_| Completed::default()).collect();
        let is_replay =
            |index: &usize| matches!(admissions.get(*index), Some(Admission::Replay { .. }));
        let replays: Vec<usize> = (0..asked.len()).filter(is_replay).collect();
        let (mut rest, mut most, mut spent) = (&*replays, FIRST_READ, 0);
        let mut problem = ask_alone();
        while !rest.is_empty() && spent < MOST_OUTCOME_BYTES {
            let (turn, later) = rest.split_at(most.min(rest.len()));
            most = MOST_READ.min(2 * most);
            let operations: Arc<[Operation]> = turn
                .iter()
                .map(|&index| asked[index].request.operation.clone())
                .collect();
            let records = match timeout(READ_WITHIN, self.store.get(operations)).await {
                Ok(Ok(records)) => records,
                Ok(Err(error)) => {
                    problem = Problem::from(&error);
                    break;
                }
                Err(_) => {
                    let late = Error::new(ErrorKind::Timeout, "the outcome was not read in time");
                    problem = Problem::from(&late.not_applied());
                    break;
                }
            };
            rest = later;
            for (&index, record) in turn.iter().zip(records) {
                completed[index] = match record {
                    Some(record) if matches!(record.state, State::Completed { .. }) => {
                        let bytes = bytes_of(record.outcome.as_ref());
                        if spent > 0 && spent + bytes > MOST_OUTCOME_BYTES {
                            // None of those behind it is read any more.
                            spent = MOST_OUTCOME_BYTES;
                            Completed::unread(ask_alone())
                        } else {
                            spent += bytes;
                            Completed::of(&record)
                        }
                    }
                    // It was forgotten meanwhile.
                    Some(_) | None => Completed::unread(ask_alone()),
                };
            }
        }
        for &index in rest {
            completed[index] = Completed::unread(problem.clone());
        }
        completed
    }
}

fn bytes_of(outcome: Option<&Outcome>) -> usize {
    match outcome {
        Some(Outcome::Kept { bytes, .. }) => bytes.len(),
        Some(Outcome::TooLarge { .. }) | None => 0,
    }
}

/// Reports that the outcome of an item has no room in the answer to its batch.
fn ask_alone() -> Problem {
    let detail = "the operation is completed, but the outcomes of this batch are too many bytes for one answer: ask \
                  for it alone";
    let code = Code::Throttled.as_str();
    Problem::new(StatusCode::TOO_MANY_REQUESTS, code, detail).with("certainty", "not_applied")
}

/// The most bytes of outcomes in the answer to a batch; a larger one is there alone.
const MOST_OUTCOME_BYTES: usize = 8 << 20;

/// The numbers of records that are read at once: first, and at most. Each may have an outcome of the largest size.
const FIRST_READ: usize = 8;
const MOST_READ: usize = 64;

/// The longest wait for outcomes, and for the time of a completion.
const READ_WITHIN: Duration = Duration::from_secs(2);
