//! The calls of a store that fail, and how.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::{ClaimRequest, Code, Error, ErrorKind, Parked, Result, Settlement};

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
pub(super) struct Batches {
    pub(super) claimed: Vec<Arc<[ClaimRequest]>>,
    pub(super) settled: Vec<Arc<[Settlement]>>,
    pub(super) parked: Vec<Arc<[Parked]>>,
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

    pub(super) fn given(&self, hold: impl FnOnce(&mut Batches)) {
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

    pub(super) async fn pass<T>(
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

/// The number of batches without those that are there twice.
fn distinct<T>(batches: &[Arc<[T]>]) -> usize {
    let places: BTreeSet<_> = batches.iter().map(|batch| batch.as_ptr()).collect();
    places.len()
}

fn throttled(after: Duration) -> Error {
    Error::new(ErrorKind::Throttled, "too many requests").retry_after(after)
}

/// Maybe applied: nobody can know.
fn broken() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection broke")
}
