//! A store that fails on cue: at the n-th call of a method, or for as long as an outage lasts.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::decide::{Directed, Directive};
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::store::Swept;
use semel_core::port::transactional::{Application, Applied, Statements, TransactionalStore};
use semel_core::{
    Admission, ClaimRequest, Code, Error, ErrorKind, Mark, Operation, Parked, Record, Renewal,
    Renewed, Result, Settled, Settlement, Store, forward_store,
};

use super::crash::Crash;
use super::time::PausedClock;

/// A call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Claim,
    Settle,
    Renew,
    Park,
    Operate,
    Sweep,
    SettleWith,
    Apply,
    /// A read, which is no part of [`away`](Plan::away).
    Get,
}

impl Method {
    const ALL: [Self; 8] = [
        Self::Claim,
        Self::Settle,
        Self::Renew,
        Self::Park,
        Self::Operate,
        Self::Sweep,
        Self::SettleWith,
        Self::Apply,
    ];
}

/// The way in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call never arrives; the caller cannot know.
    Cut,
    /// The call is carried out; the caller cannot know.
    LoseAnswer,
    /// The worker dies before the call arrives.
    CrashBefore,
    /// The worker dies after the call was carried out.
    CrashAfter,
    /// The worker stands still before the call arrives.
    DelayBefore(Duration),
    /// The worker stands still before it gets the answer.
    DelayAfter(Duration),
    /// The call never arrives, and the caller gets no answer.
    Hang,
    /// The call is carried out, and the caller gets no answer.
    HangAfter,
    /// The store has no space; surely not carried out.
    Full,
    /// The store may not be written; surely not carried out.
    ReadOnly,
    /// The store refuses for load, and asks the caller to wait this long.
    Throttled(Duration),
    /// The store refuses everything from here on.
    Poisoned,
    /// Each item alone could not be carried out.
    Items,
    /// The call is carried out, and the caller cannot know the result of every second item.
    SomeItems,
    /// Each item alone is refused for load, with the request to wait this long.
    ThrottledItems(Duration),
}

/// The calls that fail.
#[derive(Clone, Copy, Debug)]
enum When {
    Nth(u32),
    Between(Duration, Duration),
}

/// The faults of the calls of one worker, and the calls that it made.
#[derive(Debug)]
pub struct Plan {
    crash: Crash,
    clock: PausedClock,
    faults: Mutex<Vec<(Method, When, Fault)>>,
    calls: Mutex<Vec<(Method, usize)>>,
    batches: Mutex<Batches>,
}

/// The batches of the calls, held so that no other batch gets the place of one.
#[derive(Debug, Default)]
struct Batches {
    claimed: Vec<Arc<[ClaimRequest]>>,
    settled: Vec<Arc<[Settlement]>>,
    parked: Vec<Arc<[Parked]>>,
}

impl Plan {
    pub fn new(crash: Crash, clock: PausedClock) -> Self {
        Self {
            crash,
            clock,
            faults: Mutex::default(),
            calls: Mutex::default(),
            batches: Mutex::default(),
        }
    }

    /// Makes the `nth` call of `method`, counted from 1, fail.
    pub fn nth(&self, method: Method, nth: u32, fault: Fault) -> &Self {
        self.faults
            .lock()
            .expect("plans never panic")
            .push((method, When::Nth(nth), fault));
        self
    }

    /// Makes every call of `method` fail until the world is `end` old.
    pub fn outage(&self, method: Method, end: Duration, fault: Fault) -> &Self {
        self.faults.lock().expect("plans never panic").push((
            method,
            When::Between(Duration::ZERO, end),
            fault,
        ));
        self
    }

    /// Makes every call of any method fail between these ages of the world.
    pub fn away(&self, from: Duration, end: Duration, fault: Fault) -> &Self {
        let mut faults = self.faults.lock().expect("plans never panic");
        for method in Method::ALL {
            faults.push((method, When::Between(from, end), fault));
        }
        drop(faults);
        self
    }

    /// The number of calls in all.
    pub fn all_calls(&self) -> usize {
        self.calls.lock().expect("plans never panic").len()
    }

    /// The number of calls of `method`.
    pub fn calls(&self, method: Method) -> usize {
        let calls = self.calls.lock().expect("plans never panic");
        calls.iter().filter(|(called, _)| *called == method).count()
    }

    /// The number of batches that these calls of `method` were given, each counted once however often it was passed.
    pub fn batches(&self, method: Method) -> usize {
        let batches = self.batches.lock().expect("plans never panic");
        match method {
            Method::Claim => distinct(&batches.claimed),
            Method::Settle => distinct(&batches.settled),
            Method::Park => distinct(&batches.parked),
            Method::Renew
            | Method::Operate
            | Method::Sweep
            | Method::SettleWith
            | Method::Apply
            | Method::Get => unreachable!("nobody asks for the batches of {method:?}"),
        }
    }

    fn given(&self, hold: impl FnOnce(&mut Batches)) {
        hold(&mut self.batches.lock().expect("plans never panic"));
    }

    /// The number of requests for claims that asked for outcomes, too.
    pub fn outcomes_wanted(&self) -> usize {
        let batches = self.batches.lock().expect("plans never panic");
        let requests = batches.claimed.iter().flat_map(|batch| batch.iter());
        requests.filter(|request| request.wants_outcome).count()
    }

    /// The largest batch that `method` was given.
    pub fn largest(&self, method: Method) -> usize {
        let calls = self.calls.lock().expect("plans never panic");
        let batches = calls.iter().filter(|(called, _)| *called == method);
        batches.map(|(_, len)| *len).max().unwrap_or(0)
    }

    fn fault(&self, method: Method, len: usize) -> Option<Fault> {
        self.calls
            .lock()
            .expect("plans never panic")
            .push((method, len));
        let count = u32::try_from(self.calls(method)).unwrap_or(u32::MAX);
        let now = self.clock.elapsed();
        let faults = self.faults.lock().expect("plans never panic");
        let hits = |when| match when {
            When::Nth(nth) => nth == count,
            When::Between(from, end) => from <= now && now < end,
        };
        let found = faults
            .iter()
            .find(|(planned, when, _)| *planned == method && hits(*when));
        if found.is_some() {
            self.crash.befalls();
        }
        found.map(|(_, _, fault)| *fault)
    }

    async fn pass<T>(
        &self,
        method: Method,
        len: usize,
        items: impl FnOnce(Error, Option<T>) -> T,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(fault) = self.fault(method, len) else {
            return call.await;
        };
        match fault {
            Fault::Cut => Err(broken()),
            Fault::LoseAnswer => call.await.and(Err(broken())),
            Fault::CrashBefore => self.crash.now().await,
            Fault::CrashAfter => {
                let _ = call.await;
                self.crash.now().await
            }
            Fault::DelayBefore(delay) => {
                tokio::time::sleep(delay).await;
                call.await
            }
            Fault::DelayAfter(delay) => {
                let answer = call.await;
                tokio::time::sleep(delay).await;
                answer
            }
            Fault::Full => {
                let full = Error::new(ErrorKind::Unavailable, "no space is left");
                Err(full.with_code(Code::StoreFull).not_applied())
            }
            Fault::Hang => std::future::pending().await,
            Fault::HangAfter => {
                let _ = call.await;
                std::future::pending().await
            }
            Fault::ReadOnly => {
                let replica = Error::new(ErrorKind::Unavailable, "this is a replica");
                Err(replica.with_code(Code::StoreReadOnly).not_applied())
            }
            Fault::Throttled(after) => Err(throttled(after)),
            Fault::Poisoned => Err(Error::new(ErrorKind::Poisoned, "a flush failed")),
            Fault::Items => Ok(items(broken(), None)),
            Fault::SomeItems => {
                let answered = call.await?;
                Ok(items(broken(), Some(answered)))
            }
            Fault::ThrottledItems(after) => Ok(items(throttled(after), None)),
        }
    }
}

/// `S`, as one worker reaches it.
#[derive(Clone, Debug)]
pub struct Faulty<S> {
    inner: S,
    plan: Arc<Plan>,
}

impl<S> Faulty<S> {
    pub fn new(inner: S, plan: &Arc<Plan>) -> Self {
        Self {
            inner,
            plan: Arc::clone(plan),
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Faulty<S> {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        self.plan.given(|it| it.claimed.push(Arc::clone(&batch)));
        let items = |why: Error, some| failed(batch.len(), some, || Admission::Failed(why.clone()));
        self.plan
            .pass(
                Method::Claim,
                batch.len(),
                items,
                self.inner.claim(Arc::clone(&batch)),
            )
            .await
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        self.plan.given(|it| it.settled.push(Arc::clone(&batch)));
        let items = |why: Error, some| failed(batch.len(), some, || Settled::Failed(why.clone()));
        self.plan
            .pass(
                Method::Settle,
                batch.len(),
                items,
                self.inner.settle(Arc::clone(&batch)),
            )
            .await
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        self.plan
            .pass(
                Method::Get,
                batch.len(),
                |_, _| Vec::new(),
                self.inner.get(batch),
            )
            .await
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let items = |why: Error, some| failed(batch.len(), some, || Renewed::Failed(why.clone()));
        self.plan
            .pass(
                Method::Renew,
                batch.len(),
                items,
                self.inner.renew(Arc::clone(&batch)),
            )
            .await
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        self.plan.given(|it| it.parked.push(Arc::clone(&batch)));
        self.plan
            .pass(
                Method::Park,
                batch.len(),
                |_, _| Vec::new(),
                self.inner.park(batch),
            )
            .await
    }

    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let items = |why: Error, some| failed(batch.len(), some, || Directed::Failed(why.clone()));
        self.plan
            .pass(
                Method::Operate,
                batch.len(),
                items,
                self.inner.operate(Arc::clone(&batch)),
            )
            .await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.plan
            .pass(
                Method::Sweep,
                limit,
                |_, _| Swept::default(),
                self.inner.sweep(limit),
            )
            .await
    }

    forward_store!(self => self.inner; but claim, settle, get, renew, park, operate, sweep);
}

#[deny(clippy::missing_trait_methods)]
impl<S: CheckpointStore> CheckpointStore for Faulty<S> {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        let items = |why: Error, _| {
            Together::Refused(failed(batch.len(), None, || Settled::Failed(why.clone())))
        };
        // An empty batch only sets the mark when an output is opened for the first time.
        if batch.is_empty() {
            return self.inner.settle_with(Arc::clone(&batch), mark).await;
        }
        let call = self.inner.settle_with(Arc::clone(&batch), mark);
        self.plan
            .pass(Method::SettleWith, batch.len(), items, call)
            .await
    }
    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        self.inner.admit_with(batch, write).await
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        self.inner.mark(name).await
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: TransactionalStore> TransactionalStore for Faulty<S> {
    async fn prepare(&self, statements: &Statements) -> Result<()> {
        self.inner.prepare(statements).await
    }

    async fn apply(
        &self,
        statements: &Statements,
        batch: Arc<[Application]>,
    ) -> Result<Vec<Applied>> {
        let items = |why: Error, some| {
            let item = || Applied::NotGranted(Admission::Failed(why.clone()));
            failed(batch.len(), some, item)
        };
        let call = self.inner.apply(statements, Arc::clone(&batch));
        self.plan
            .pass(Method::Apply, batch.len(), items, call)
            .await
    }
}

/// The number of batches without those that are there twice.
fn distinct<T>(batches: &[Arc<[T]>]) -> usize {
    let places: BTreeSet<_> = batches.iter().map(|batch| batch.as_ptr()).collect();
    places.len()
}

/// A failure for each item, or the answers with every second one replaced by one.
fn failed<T>(count: usize, some: Option<Vec<T>>, item: impl Fn() -> T) -> Vec<T> {
    let Some(mut answers) = some else {
        return (0..count).map(|_| item()).collect();
    };
    answers
        .iter_mut()
        .step_by(2)
        .for_each(|answer| *answer = item());
    answers
}

fn throttled(after: Duration) -> Error {
    Error::new(ErrorKind::Throttled, "too many requests").retry_after(after)
}

/// Maybe applied: nobody can know.
fn broken() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection broke")
}
