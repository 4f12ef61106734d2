use std::fmt::Debug;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::audit::Audited;
use crate::claim::ClaimId;
use crate::decide::Order;
use crate::error::Certainty;
use crate::key::{Key, Scope};
use crate::outcome::Outcome;
use crate::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Swept};
use crate::record::StateKind;
use crate::settle::Step;
use crate::time::Timestamp;
use crate::window::Window;

/// The way in which a store answers the items of its batches.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Each,
    /// Each has failed alone.
    Failed,
    Nothing,
}

/// Answers in its manner, and notes the batches.
struct Answers {
    manner: Manner,
    heard: Mutex<Vec<String>>,
}

impl Answers {
    fn new(manner: Manner) -> Self {
        let heard = Mutex::default();
        Self { manner, heard }
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().expect("nobody panics"))
    }

    fn answer<I: Debug, T>(&self, batch: &[I], yes: T, failed: Option<T>) -> Vec<T> {
        let heard = format!("{batch:?}");
        self.heard.lock().expect("nobody panics").push(heard);
        match self.manner {
            Manner::Each => vec![yes],
            Manner::Failed => vec![failed.unwrap_or(yes)],
            Manner::Nothing => Vec::new(),
        }
    }
}

impl Store for Answers {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        let failed = Admission::Failed(throttled());
        Ok(self.answer(&batch, Admission::TooOld, Some(failed)))
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        let done = Settled::Now(StateKind::Completed);
        Ok(self.answer(&batch, done, Some(Settled::Failed(throttled()))))
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let until = Renewed::Until(Timestamp::from_millis(7));
        Ok(self.answer(&batch, until, Some(Renewed::Failed(throttled()))))
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        Ok(self.answer(&batch, true, None))
    }

    async fn drop_parked(&self, batch: Arc<[ParkedId]>, note: Option<&Note>) -> Result<Vec<bool>> {
        assert_eq!(note, Some(&self::note()));
        Ok(self.answer(&batch, true, None))
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        Ok(self.answer(&batch, None, None))
    }

    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let failed = Directed::Failed(throttled());
        Ok(self.answer(&batch, Directed::Now(None), Some(failed)))
    }

    async fn list(&self, _: &ListQuery) -> Result<Page<Listed>> {
        Err(throttled())
    }

    async fn list_parked(&self, _: &ListQuery) -> Result<Page<Parked>> {
        Err(throttled())
    }

    async fn list_audit(&self, _: &ListQuery) -> Result<Page<Audited>> {
        Err(throttled())
    }

    async fn sweep(&self, _: usize) -> Result<Swept> {
        Err(throttled())
    }

    async fn stats(&self) -> Result<Stats> {
        Err(throttled())
    }

    async fn preflight(&self) -> Result<Capabilities> {
        Err(throttled())
    }
}

fn throttled() -> Error {
    Error::new(ErrorKind::Throttled, "too many at once")
}

fn note() -> Note {
    Note {
        by: "ann".into(),
        reason: "a test".into(),
    }
}

/// Nothing here waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

/// One item of each kind.
struct Items {
    request: ClaimRequest,
    settlement: Settlement,
    renewal: Renewal,
    message: Parked,
    directive: Directive,
}

impl Items {
    fn new() -> Self {
        let scope = Scope::new("", "payments").expect("a scope");
        let key = Key::parse("pay-1").expect("a key");
        let claim_id = ClaimId::from_u128(7);
        let request = ClaimRequest::new(scope.clone(), key.clone(), claim_id);
        let operation = request.operation.clone();
        Self {
            request,
            settlement: Settlement {
                operation: operation.clone(),
                claim_id,
                step: Step::Complete {
                    outcome: Outcome::empty(),
                    window: Window::DEFAULT,
                },
            },
            renewal: Renewal {
                operation: operation.clone(),
                claim_id,
                lease: Duration::from_secs(30),
            },
            message: Parked {
                scope,
                key: Some(key),
                reason: "dead".into(),
                detail: "".into(),
                transport: None,
                coordinates: "orders/3/17".into(),
                headers: Vec::new(),
                payload: "{}".into(),
                since: Timestamp::EPOCH,
            },
            directive: Directive {
                operation,
                order: Order::Forget,
                note: None,
            },
        }
    }

    /// The answer of each method, in the order of the port.
    fn ask(&self, store: &Answers) -> [Result<String>; 7] {
        fn shown<T: Debug>(answer: impl Future<Output = Result<T>>) -> Result<String> {
            now(answer).map(|answer| format!("{answer:?}"))
        }
        [
            shown(store.claim_one(self.request.clone())),
            shown(store.settle_one(self.settlement.clone())),
            shown(store.renew_one(self.renewal.clone())),
            shown(store.park_one(self.message.clone())),
            shown(store.drop_parked_one(self.message.id(), Some(&note()))),
            shown(store.get_one(self.request.operation.clone())),
            shown(store.operate_one(self.directive.clone())),
        ]
    }

    /// The batches that these are.
    fn batches(&self) -> [String; 7] {
        [
            format!("{:?}", [&self.request]),
            format!("{:?}", [&self.settlement]),
            format!("{:?}", [&self.renewal]),
            format!("{:?}", [&self.message]),
            format!("{:?}", [self.message.id()]),
            format!("{:?}", [&self.request.operation]),
            format!("{:?}", [&self.directive]),
        ]
    }
}

#[test]
fn one_item_is_a_batch_of_one_and_its_answer() {
    let (store, items) = (Answers::new(Manner::Each), Items::new());
    let answers = items.ask(&store).map(|it| it.expect("an answer"));
    let (done, until) = (StateKind::Completed, Timestamp::from_millis(7));
    let expected = [
        format!("{:?}", Admission::TooOld),
        format!("{:?}", Settled::Now(done)),
        format!("{:?}", Renewed::Until(until)),
        "true".to_owned(),
        "true".to_owned(),
        "None".to_owned(),
        format!("{:?}", Directed::Now(None)),
    ];
    assert_eq!(answers, expected);
    assert_eq!(store.heard(), items.batches());
}

#[test]
fn an_item_that_failed_alone_fails_its_call() {
    let store = Answers::new(Manner::Failed);
    let [claim, settle, renew, park, drop, get, operate] = Items::new().ask(&store);
    for failed in [claim, settle, renew, operate] {
        let error = failed.expect_err("it failed");
        assert_eq!(error.kind(), ErrorKind::Throttled);
        assert_eq!(error.to_string(), "too many at once");
    }
    // These items cannot fail alone.
    assert!(park.is_ok() && drop.is_ok() && get.is_ok());
}

#[test]
fn an_answer_of_nothing_is_a_broken_contract_in_the_same_words() {
    let store = Answers::new(Manner::Nothing);
    for answer in Items::new().ask(&store) {
        let error = answer.expect_err("nothing was answered");
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert_eq!(error.certainty(), Certainty::MaybeApplied);
        let message = "the store answered an item of a batch with nothing";
        assert_eq!(error.to_string(), message);
    }
}
