//! Checks of the settings that the worker runs with: one at a time, and for a bounded time. Whoever asks the same while one
//! goes on gets its answer.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use semel_core::Code;
use semel_http::Problem;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;

use crate::answer::text;
use crate::query::Query;
use crate::reading::later;
use crate::settings::{CheckQuestion, Checker, Settings};

/// The members that a query may have.
pub(crate) const MEMBERS: &[&str] = &["pipeline", "rate", "production"];

/// The checks that go on, or wait for their turn.
#[derive(Debug)]
pub(crate) struct Checks {
    asked: Mutex<Vec<(CheckQuestion, Weak<Answered>)>>,
    place: Semaphore,
}

/// The answer to a question, once it is there. The first request that asks makes it; if that is given up, the next one
/// does.
type Answered = OnceCell<Result<Bytes, Problem>>;

impl Checks {
    pub(crate) fn new() -> Self {
        Self {
            asked: Mutex::default(),
            place: Semaphore::new(1),
        }
    }

    /// Checks: the reports of `semel check`.
    ///
    /// # Errors
    ///
    /// 404 `pipeline-unknown`; 503 `throttled` while a check of another question goes on, 503 `timeout` if this one takes
    /// too long, 501 where nobody checks
    ///
    /// # Cancel safety   safe
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
        let answered = self.answered(&question);
        let made = || self.made(&**checker, question, settings);
        answered.get_or_init(made).await.clone()
    }

    /// Returns the place of the answer to a question: that of another request which has it, or waits for it.
    fn answered(&self, question: &CheckQuestion) -> Arc<Answered> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|(_, answered)| answered.strong_count() > 0);
        let same = asked.iter().find(|(known, _)| known == question);
        if let Some(answered) = same.and_then(|(_, it)| it.upgrade()) {
            return answered;
        }
        let answered = Arc::default();
        asked.push((question.clone(), Arc::downgrade(&answered)));
        answered
    }

    /// Checks once nobody else does.
    async fn made(
        &self,
        checker: &dyn Checker,
        question: CheckQuestion,
        settings: &Settings,
    ) -> Result<Bytes, Problem> {
        let Ok(Ok(_place)) = timeout(TURN, self.place.acquire()).await else {
            let detail = "another check goes on; ask again";
            return Err(later(Code::Throttled.as_str(), detail));
        };
        let store = settings.store.borrow().as_ref().map(|it| it.store.clone());
        let Ok(answer) = timeout(LONGEST, checker.check(question, store)).await else {
            let detail = format!(
                "the check did not end within {} s: several servers do not answer; ask about one `pipeline`, or use the \
                 command line with the configuration, which has no such bound",
                LONGEST.as_secs()
            );
            return Err(later(Code::Timeout.as_str(), detail));
        };
        let answer = answer.map_err(|error| Problem::from(&error))?;
        text(&answer).map(Bytes::from)
    }
}

/// The longest time of a check.
pub const LONGEST: Duration = Duration::from_secs(25);
/// The longest wait for the end of another one.
const TURN: Duration = Duration::from_secs(2);
