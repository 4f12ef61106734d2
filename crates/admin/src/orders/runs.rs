//! Runs: messages that are run again in the process of the worker, beside its pipelines, and keys of a whole pipeline that
//! are remembered for longer. A run goes on without whoever asked for it, and tells at any time what has come of it. What
//! is remembered of runs is bounded, and ends with the worker: the records that they changed and the messages that they
//! dropped stand in the audit trail.

mod audit_entries;
mod extension_task;
mod report;
mod stop;
mod task;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use semel_core::{Code, Entropy, Fate, Key, Parked, ParkedId, Record, Timestamp};
use semel_http::{Caller, Problem, Tenant};
use semel_operate::keys::Extended;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use super::execution;
use super::plan::{Change, Plan, Rerun, Standing, Work};
use super::request::Action;
use crate::reading::later;

pub(super) use extension_task::ExtensionTask;
use stop::StopOrder;
pub(super) use task::RunTask;

/// The runs that go on, and the last ones that have ended.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    all: Mutex<VecDeque<Arc<Run>>>,
    /// Turned `true` when the worker ends.
    end: watch::Sender<bool>,
}

/// A run.
#[derive(Debug)]
pub(crate) struct Run {
    id: String,
    /// The digest of the token that it was begun with.
    token: [u8; 32],
    action: Action,
    by: Box<str>,
    reason: Box<str>,
    /// The tenant that its caller is confined to.
    tenant: Option<Tenant>,
    /// The key under which its message runs.
    key: Option<Key>,
    begun: Timestamp,
    /// The pipelines that it runs messages of.
    pipelines: Vec<Box<str>>,
    changes: Vec<Change>,
    /// The place of each message among the changes, and how it was planned.
    places: BTreeMap<ParkedId, (usize, Standing)>,
    progress: Mutex<Progress>,
    has_ended: watch::Sender<bool>,
    /// Turned `true` when somebody stops it.
    stop: watch::Sender<bool>,
}

/// The progress of a run.
#[derive(Debug)]
struct Progress {
    state: RunState,
    ended: Option<Timestamp>,
    /// The result of each change; nothing while it is not known.
    results: Vec<Option<Came>>,
    /// The object that the verb prints, of each pipeline that is through.
    reports: Vec<Value>,
    problem: Option<Problem>,
    /// The order that stopped it.
    stopped: Option<StopOrder>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunState {
    Running,
    /// Every message was taken in hand.
    Ended,
    /// It was ended before that: the rest stays set aside.
    Stopped,
    /// It broke off with a problem.
    Failed,
}

/// The result of a change.
#[derive(Clone, Debug)]
enum Came {
    /// Nothing yet: it was taken in hand.
    Taken,
    /// Of a doubt that has no message, or of a message that is not as it was planned.
    Order(execution::Fate),
    /// Of a message.
    Message(Fate),
}

/// The request for a run: by whom, by which token, when and why.
pub(super) struct Asked<'a> {
    pub(super) caller: &'a Caller,
    pub(super) action: Action,
    pub(super) token: &'a str,
    pub(super) reason: &'a str,
    pub(super) at: Timestamp,
}

/// The subject of a run.
#[derive(Default)]
pub(super) struct Subject {
    key: Option<Key>,
    pipelines: Vec<Box<str>>,
    places: BTreeMap<ParkedId, (usize, Standing)>,
}

impl Subject {
    /// Messages and doubts.
    pub(super) fn of_rerun(rerun: &Rerun) -> Self {
        let first = rerun.alone.len();
        let places = (first..).zip(&rerun.messages);
        let places = places.map(|(at, (id, standing))| (*id, (at, standing.clone())));
        Self {
            key: rerun.key.clone(),
            pipelines: rerun.pipelines.keys().cloned().collect(),
            places: places.collect(),
        }
    }

    /// The keys of a pipeline.
    pub(super) fn of_keys(pipeline: &str) -> Self {
        Self {
            pipelines: vec![pipeline.into()],
            ..Self::default()
        }
    }
}

impl Runs {
    /// Finds the run that was begun with a token: an order that is sent twice is one.
    pub(super) fn begun_with(&self, token: &str) -> Option<Arc<Run>> {
        let token = digest(token);
        let all = self.all();
        all.iter().find(|it| it.token == token).cloned()
    }

    /// Refuses a plan about pipelines of which messages are being run, and more runs at once than there may be.
    ///
    /// # Errors
    ///
    /// 409 `run-unfinished` with the id of the other `run`, if the caller may see that; 503 `throttled`
    pub(super) fn check(&self, plan: &Plan, caller: &Caller) -> Result<(), Problem> {
        let pipelines: Vec<&str> = match &plan.work {
            Work::Rerun(rerun) => rerun.pipelines.keys().map(|it| &**it).collect(),
            Work::Extension(extension) => vec![&*extension.pipeline],
            _ => return Ok(()),
        };
        let all = self.all();
        let going = all.iter().filter(|it| it.is_running());
        let going: Vec<_> = going.collect();
        let meets = |run: &Run| {
            let mut theirs = run.pipelines.iter();
            theirs.any(|it| pipelines.contains(&&**it))
        };
        if let Some(run) = going.iter().find(|it| meets(it)) {
            let (status, code) = (StatusCode::CONFLICT, Code::RunUnfinished.as_str());
            if !run.is_seen_by(caller) {
                let detail = "a run of another tenant about the same pipeline goes on, and nothing of this order was done: \
                              plan again in a while";
                return Err(Problem::new(status, code, detail));
            }
            let work = if run.is_about_keys() {
                "extends the keys of"
            } else {
                "runs messages of"
            };
            let detail = format!(
                "{} {work} the same pipeline, and nothing of this order was done; /v1/runs/{} tells how far it is: \
                 plan again once it has ended",
                run.by, run.id
            );
            return Err(Problem::new(status, code, detail).with("run", &*run.id));
        }
        if going.len() >= AT_ONCE {
            let detail = "other runs go on, as many as may at once; /v1/runs lists them: ask again";
            return Err(later(Code::Throttled.as_str(), detail));
        }
        Ok(())
    }

    /// Remembers a run that begins, and returns it with what is to be done.
    pub(super) fn begin(
        &self,
        asked: &Asked<'_>,
        changes: Vec<Change>,
        subject: Subject,
        entropy: &dyn Entropy,
    ) -> Arc<Run> {
        let mut id = [0; 8];
        entropy.fill(&mut id);
        let Subject {
            key,
            pipelines,
            places,
        } = subject;
        let run = Arc::new(Run {
            id: format!("{:016x}", u64::from_be_bytes(id)),
            token: digest(asked.token),
            action: asked.action,
            by: asked.caller.name.clone(),
            reason: asked.reason.into(),
            tenant: asked.caller.tenant.clone(),
            key,
            begun: asked.at,
            pipelines,
            places,
            progress: Mutex::new(Progress {
                state: RunState::Running,
                ended: None,
                results: vec![None; changes.len()],
                reports: Vec::new(),
                problem: None,
                stopped: None,
            }),
            changes,
            has_ended: watch::Sender::default(),
            stop: watch::Sender::default(),
        });
        let mut all = self.all();
        all.push_front(Arc::clone(&run));
        if all.len() > REMEMBERED
            && let Some(oldest) = all.iter().rposition(|it| !it.is_running())
        {
            all.remove(oldest);
        }
        run
    }

    /// Lists the runs that a caller may see, the latest first.
    pub(crate) fn list(&self, caller: &Caller) -> Vec<Arc<Run>> {
        let all = self.all();
        let seen = all.iter().filter(|it| it.is_seen_by(caller));
        seen.cloned().collect()
    }

    /// Finds a run that a caller may see.
    ///
    /// # Errors
    ///
    /// 404 `run-unknown`
    pub(crate) fn find(&self, id: &str, caller: &Caller) -> Result<Arc<Run>, Problem> {
        let mut all = self.list(caller).into_iter();
        all.find(|it| it.id == id).ok_or_else(|| {
            let detail = "the worker remembers no run by this id: it remembers the last ones, and none from before its \
                          start; /v1/audit has what they changed";
            let status = StatusCode::NOT_FOUND;
            Problem::new(status, Code::RunUnknown.as_str(), detail)
        })
    }

    /// Ends every run after what it has in hand.
    pub(super) fn stop(&self) {
        self.end.send_replace(true);
    }

    /// Waits until no run goes on.
    pub(super) async fn ended(&self) {
        let all: Vec<_> = self.all().iter().cloned().collect();
        for run in all {
            run.wait().await;
        }
    }

    pub(super) fn end(&self) -> watch::Receiver<bool> {
        self.end.subscribe()
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Arc<Run>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Waits for its end, for as long as a request should take.
    pub(super) async fn answered(&self) {
        let _ = timeout(ANSWER, self.wait()).await;
    }

    pub(crate) fn is_running(&self) -> bool {
        self.progress().state == RunState::Running
    }

    async fn wait(&self) {
        let mut ended = self.has_ended.subscribe();
        // The sender is a part of the run.
        let _ = ended.wait_for(|it| *it).await;
    }

    fn is_seen_by(&self, caller: &Caller) -> bool {
        caller.tenant.is_none() || caller.tenant == self.tenant
    }

    /// Notes what has come of a message.
    fn came(&self, id: ParkedId, fate: Fate) {
        if let Some((at, _)) = self.places.get(&id) {
            self.note(*at, Came::Message(fate));
        }
    }

    /// Notes that a message is in hand: its effect may be called from now on.
    fn taken(&self, id: ParkedId) {
        if let Some((at, _)) = self.places.get(&id) {
            self.note(*at, Came::Taken);
        }
    }

    /// Tells whether a message stands as it was planned, and notes that it is refused if it does not.
    fn stands(&self, message: &Parked, record: Option<&Record>) -> bool {
        let Some((at, standing)) = self.places.get(&message.id()) else {
            return false;
        };
        let is_same = standing.is(message, record);
        if !is_same {
            // What the run has in hand, or through, it met before somebody set it aside anew.
            let mut progress = self.progress();
            progress.results[*at].get_or_insert(Came::Order(execution::Fate::changed()));
        }
        is_same
    }

    /// Tells how far a run about keys is.
    fn reports(&self, done: &Extended) {
        let report = serde_json::to_value(done).unwrap_or_default();
        self.progress().reports = vec![report];
    }

    /// Notes what has come of every change.
    fn came_of_all(&self, came: Came) {
        self.progress().results.fill(Some(came));
    }

    fn note(&self, at: usize, came: Came) {
        self.progress().results[at] = Some(came);
    }

    /// Tells whether every change has come to an end.
    fn is_through(&self) -> bool {
        let progress = self.progress();
        let is_over = |it: &Option<Came>| !matches!(it, None | Some(Came::Taken));
        progress.results.iter().all(is_over)
    }

    fn end(&self, state: RunState, at: Timestamp, problem: Option<Problem>) {
        let mut progress = self.progress();
        if progress.state != RunState::Running {
            return;
        }
        progress.state = state;
        progress.ended = Some(at);
        progress.problem = problem;
        drop(progress);
        self.has_ended.send_replace(true);
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(token: &str) -> [u8; 32] {
    *blake3::hash(token.as_bytes()).as_bytes()
}

/// The runs that go on at once.
const AT_ONCE: usize = 4;
/// The runs that are remembered.
const REMEMBERED: usize = 16;
/// The longest wait for the end of a run before a request is answered.
const ANSWER: Duration = Duration::from_secs(10);
