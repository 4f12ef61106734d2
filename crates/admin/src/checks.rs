//! Checks of the settings that the worker runs with: one at a time, and for a bounded time. Whoever asks the same while one
//! goes on gets its answer. A check that has begun goes on whoever leaves: what it asks may block a thread, which nobody can
//! call back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use semel_core::{Code, Error, ErrorKind};
use semel_http::Problem;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::answer::text;
use crate::query::Query;
use crate::reading::later;
use crate::settings::{CheckQuestion, Checker, Lent, Settings};

/// The members that a query may have.
pub(crate) const MEMBERS: &[&str] = &["pipeline", "rate", "production"];

/// The checks that go on, or wait for their turn. Dropping them ends them.
#[derive(Debug)]
pub(crate) struct Checks {
    questions: Arc<Questions>,
    tasks: Mutex<JoinSet<()>>,
}

/// The questions without an answer yet, and the place of the check that goes on.
#[derive(Debug)]
struct Questions {
    open: Mutex<Vec<(CheckQuestion, watch::Sender<Reply>)>>,
    place: Semaphore,
}

/// The answer to a question, once it is there.
type Reply = Option<Result<Bytes, Problem>>;

impl Checks {
    pub(crate) fn new() -> Self {
        Self {
            questions: Arc::new(Questions {
                open: Mutex::default(),
                place: Semaphore::new(1),
            }),
            tasks: Mutex::default(),
        }
    }

    /// Checks: the reports of `semel check`.
    ///
    /// # Errors
    ///
    /// 404 `pipeline-unknown`; 503 `throttled` while a check of another question goes on, or what one has asked, and at
    /// once while too many wait for their turn; 503 `timeout` if this one takes too long, 501 where nobody checks
    ///
    /// # Cancel safety   safe: a check that has begun goes on to its end, for those that ask the same
    pub(crate) async fn answer(
        &self,
        settings: &Settings,
        query: &Query,
    ) -> Result<Bytes, Problem> {
        // It is about the store and the servers of all tenants.
        query.sees_everything()?;
        let question = CheckQuestion {
            pipeline: query.short_text("pipeline")?.map(Box::from),
            rate: query.count("rate")?,
            production: query.flag("production")?,
        };
        if let Some(name) = &question.pipeline
            && !settings
                .pipelines
                .iter()
                .any(|it| it.pipeline.name == *name)
        {
            let detail = "the worker has no such pipeline; /v1/pipelines lists those that it has";
            let code = Code::PipelineUnknown.as_str();
            return Err(Problem::new(StatusCode::NOT_FOUND, code, detail));
        }
        let Some(checker) = &settings.checker else {
            let detail = "nobody checks the settings of this worker";
            let code = Code::Unsupported.as_str();
            return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, code, detail));
        };
        let mut answered = self.answered(question, checker, settings)?;
        let answer = answered.wait_for(Option::is_some).await;
        let answer = answer.ok().and_then(|it| it.clone());
        // Its task panicked, or the service ends.
        answer.unwrap_or_else(|| {
            let error = Error::new(ErrorKind::Internal, "the check ended without an answer");
            Err(Problem::from(&error.not_applied()))
        })
    }

    /// Returns the place of the answer to a question: that of a check of it which goes on or waits for its turn, or of a
    /// new one.
    ///
    /// # Errors
    ///
    /// 503 `throttled` if as many other questions wait for an answer as may
    fn answered(
        &self,
        question: CheckQuestion,
        checker: &Arc<dyn Checker>,
        settings: &Settings,
    ) -> Result<watch::Receiver<Reply>, Problem> {
        let mut questions = self.questions.open();
        let same = questions.iter().find(|(known, _)| *known == question);
        if let Some((_, answered)) = same {
            return Ok(answered.subscribe());
        }
        if questions.len() >= MOST {
            let detail = format!("{MOST} other questions wait for a check; ask again");
            return Err(later(Code::Throttled.as_str(), detail));
        }
        let (answer, answered) = watch::channel(None);
        questions.push((question.clone(), answer));
        drop(questions);
        let (all, checker) = (Arc::clone(&self.questions), Arc::clone(checker));
        let store = settings.store.clone();
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move { all.check(&question, &*checker, &store).await });
        Ok(answered)
    }
}

impl Questions {
    fn open(&self) -> MutexGuard<'_, Vec<(CheckQuestion, watch::Sender<Reply>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks once nobody else does, and if anybody still waits for it.
    async fn check(
        &self,
        question: &CheckQuestion,
        checker: &dyn Checker,
        store: &watch::Receiver<Option<Lent>>,
    ) {
        // However it ends, the next one that asks begins anew.
        let mut open = OpenQuestion(self, Some(question));
        let Ok(Ok(_place)) = timeout(TURN, self.place.acquire()).await else {
            let detail = "another check goes on, or what one has asked; ask again";
            open.with(Err(later(Code::Throttled.as_str(), detail)));
            return;
        };
        if open.is_left() {
            return;
        }
        let store = store.borrow().as_ref().map(|it| it.store.clone());
        let checking = checker.check(question.clone(), store);
        let Ok(answer) = timeout(LONGEST, checking).await else {
            let detail = format!(
                "the check did not end within {} s; ask about one `pipeline`, or use the command line with the \
                 configuration, which has no such bound",
                LONGEST.as_secs()
            );
            open.with(Err(later(Code::Timeout.as_str(), detail)));
            // Drivers may still wait, each on a thread: their own bounds end that.
            sleep(REST).await;
            return;
        };
        open.with(match answer {
            Ok(answer) => text(&answer).map(Bytes::from),
            Err(error) if error.kind() == ErrorKind::Throttled => {
                Err(later(Code::Throttled.as_str(), error.to_string()))
            }
            Err(error) => Err(Problem::from(&error)),
        });
    }
}

/// The question that a task answers; none once it did. Dropping it takes the question back.
struct OpenQuestion<'a>(&'a Questions, Option<&'a CheckQuestion>);

impl OpenQuestion<'_> {
    /// Gives the answer to all that wait for it.
    fn with(&mut self, answer: Result<Bytes, Problem>) {
        if let Some(waiting) = self.take() {
            waiting.send_replace(Some(answer));
        }
    }

    /// Tells whether nobody waits for the answer, and takes the question back then.
    fn is_left(&mut self) -> bool {
        let Some(question) = self.1 else {
            return true;
        };
        let mut questions = self.0.open();
        questions.retain(|(known, waiting)| known != question || !waiting.is_closed());
        let is_left = questions.iter().all(|(known, _)| known != question);
        if is_left {
            self.1 = None;
        }
        is_left
    }

    fn take(&mut self) -> Option<watch::Sender<Reply>> {
        let question = self.1.take()?;
        let mut questions = self.0.open();
        let at = questions.iter().position(|(known, _)| known == question)?;
        Some(questions.swap_remove(at).1)
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.take();
    }
}

/// The longest time of a check.
pub const LONGEST: Duration = Duration::from_secs(25);
/// The most questions without an answer: that of the check that goes on, and those that wait for their turn.
const MOST: usize = 32;
/// The longest wait for the end of another one.
const TURN: Duration = Duration::from_secs(2);
/// The time after a check that was cut off in which no other begins. No driver waits longer for one answer.
const REST: Duration = Duration::from_secs(30);
