//! One child for many messages: a request line in, an answer line out, in any order.
//!
//! A request is `{"id":1,"operation_id":"…","operation":"…","key":"…","attempt":1,
//! "fencing_token":7,"idempotency_key":"…","coordinates":"…","payload":…}`, before the payload with `"traceparent"` and
//! `"tracestate"` if the message belongs to a trace; a payload that is no JSON comes as `"payload_base64":"…"`. An answer is `{"id":1,"status":"done","result":…}`, or has
//! the status `retry` (with `error` and `retry_after`, as `"5s"`), `dead` or `unknown`.

pub mod frame;
mod liveness;
mod session;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time;

use semel_core::{Backoff, Certainty, Result};
use semel_engine::effect::{Call, Effect, Verdict};

use super::child;
use liveness::Liveness;
use session::{End, Session};

/// The command to keep running, and the time limit of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The time that a call may take, from its beginning or from the last answer to one that began before
    /// it. The child is not killed for a call that takes longer.
    pub timeout: Duration,
}

impl Settings {
    /// Settings for `command`, with a timeout of 30 seconds.
    pub fn new(command: Vec<String>) -> Self {
        Self {
            command,
            timeout: Duration::from_secs(30),
        }
    }
}

/// Keeps one child running and hands it every message.
///
/// # Shape
///
/// `done`, `dead`, `retry` → not applied, `unknown` → maybe applied. A child that ends or breaks the
/// protocol leaves every request it may have read maybe applied, and the others not applied; one that
/// ends before its first answer, or whose answer is none → broken. One that cannot be started → away. No
/// answer in time, to it or to one before it → maybe applied; the late one is ignored
pub struct JsonlEffect {
    settings: Arc<Settings>,
    next_id: AtomicU64,
    requests: mpsc::Sender<Request>,
    liveness: Arc<Liveness>,
    closing: watch::Sender<bool>,
    driver: Mutex<JoinSet<()>>,
}

impl JsonlEffect {
    /// An effect that starts `settings.command` with the first message. Needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: an empty command
    pub fn new(settings: Settings) -> Result<Self> {
        child::validate(&settings.command)?;
        let settings = Arc::new(settings);
        let (requests, queue) = mpsc::channel(MOST_QUEUED);
        let (closing, closed) = watch::channel(false);
        let liveness = Arc::new(Liveness::new(settings.timeout));
        let mut driver = JoinSet::new();
        driver.spawn(drive(
            Arc::clone(&settings),
            Arc::clone(&liveness),
            queue,
            closed,
        ));
        Ok(Self {
            settings,
            next_id: AtomicU64::new(1),
            requests,
            liveness,
            closing,
            driver: Mutex::new(driver),
        })
    }

    /// Looks for the program without starting it.
    ///
    /// # Errors
    ///
    /// `Unavailable` with code `target-unavailable`
    pub fn check(&self) -> Result<()> {
        child::find(&self.settings.command[0]).map(|_| ())
    }

    /// Closes the child's standard input, takes the answers that still come, and waits for its end, or
    /// kills it after five seconds; at once if it has requests and all of them were given up. Later calls
    /// are not applied.
    ///
    /// # Cancel safety
    ///
    /// Safe: it goes on until the effect is dropped, which kills the child
    pub async fn close(&self) {
        self.closing.send_replace(true);
        while self.driver.lock().await.join_next().await.is_some() {}
    }
}

impl Effect for JsonlEffect {
    /// # Cancel safety
    ///
    /// A request that was not written yet is left out; one that was may be applied
    async fn call(&self, call: Call) -> Verdict {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let taken = Arc::new(AtomicBool::new(false));
        let (answer, verdict) = oneshot::channel();
        let line = frame::request(id, &call);
        let request = Request {
            id,
            line,
            taken: Arc::clone(&taken),
            answer,
        };
        let exchange = async {
            if self.requests.send(request).await.is_err() {
                return None;
            }
            verdict.await.ok()
        };
        let mut exchange = pin!(exchange);
        let timeout = self.settings.timeout;
        let mut left = timeout;
        loop {
            match time::timeout(left, &mut exchange).await {
                Ok(Some(verdict)) => return verdict,
                Ok(None) => return unanswered(&taken, "the effect was closed".into()),
                Err(_) => {}
            }
            let liveness = self.liveness.before(id);
            left = liveness.map_or(Duration::ZERO, |at| timeout.saturating_sub(at.elapsed()));
            if left.is_zero() {
                return unanswered(&taken, format!("no answer within {timeout:?}").into());
            }
        }
    }

    fn quiet(&self) -> Duration {
        self.settings.timeout
    }
}

impl fmt::Debug for JsonlEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonlEffect")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// One call on its way to the child.
#[derive(Debug)]
struct Request {
    id: u64,
    line: Vec<u8>,
    /// Set by the first of two: by the driver before it writes, or by a caller that gives up. So no
    /// request that was reported as not applied is written afterwards.
    taken: Arc<AtomicBool>,
    answer: oneshot::Sender<Verdict>,
}

impl Request {
    /// Returns whether the driver may write it.
    fn take(&self) -> bool {
        !self.answer.is_closed() && !self.taken.swap(true, Ordering::AcqRel)
    }
}

/// The verdict for a caller that got no answer, which depends on whether the request was taken to be
/// written.
fn unanswered(taken: &AtomicBool, error: Box<str>) -> Verdict {
    if taken.swap(true, Ordering::AcqRel) {
        Verdict::MaybeApplied { error }
    } else {
        Verdict::NotApplied {
            error,
            retry_after: None,
        }
    }
}

/// Starts the child whenever there is work and none runs.
async fn drive(
    settings: Arc<Settings>,
    liveness: Arc<Liveness>,
    mut queue: mpsc::Receiver<Request>,
    mut closed: watch::Receiver<bool>,
) {
    let mut waiting = Vec::new();
    let mut failures = 0;
    loop {
        if waiting.is_empty() {
            tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => break,
                count = queue.recv_many(&mut waiting, 1) => if count == 0 { break },
            }
        }
        match child::start(Command::new(&settings.command[0]).args(&settings.command[1..])) {
            Ok(running) => {
                let mut session = Session::new(&settings.command[0], &liveness);
                let end = session
                    .run(running, &mut waiting, &mut queue, &mut closed)
                    .await;
                if end == End::Closed {
                    break;
                }
                if let Some(error) = session.broken() {
                    // The next child begins with the requests that it is handed then.
                    while let Ok(request) = queue.try_recv() {
                        waiting.push(request);
                    }
                    for request in waiting.drain(..) {
                        refuse(
                            request,
                            Verdict::Broken {
                                error: error.clone(),
                                certainty: Certainty::NotApplied,
                            },
                        );
                    }
                }
                // Callers wait before a broken handler is tried again.
                failures = if session.has_answered() || session.broken().is_some() {
                    1
                } else {
                    failures + 1
                };
            }
            Err(error) => {
                let error = child::cannot_start(&settings.command[0], &error);
                for request in waiting.drain(..) {
                    let error = error.clone().into();
                    refuse(request, Verdict::Away { error });
                }
                // Callers wait before the next try.
                continue;
            }
        }
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => break,
            () = time::sleep(RESTART.after(failures)) => {}
        }
    }
    queue.close();
    while let Some(request) = queue.recv().await {
        waiting.push(request);
    }
    for request in waiting {
        refuse(
            request,
            Verdict::NotApplied {
                error: "the effect was closed".into(),
                retry_after: None,
            },
        );
    }
}

/// Answers a request that was not handed to a child.
fn refuse(request: Request, verdict: Verdict) {
    if request.take() {
        let _ = request.answer.send(verdict);
    }
}

/// The wait before a child that ended is started again; back at the first after any answer.
const RESTART: Backoff = Backoff {
    first: Duration::from_millis(100),
    most: Duration::from_secs(10),
};
/// The most calls that wait to be written before the next caller waits to join them.
const MOST_QUEUED: usize = 1_024;
