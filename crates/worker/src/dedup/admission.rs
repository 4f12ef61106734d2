//! Lines that are decided, written and completed in one step of the store, batch by batch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::port::checkpoint::{AnyCheckpointStore, CheckpointStore, Write};
use semel_core::{Admission, Error, ErrorKind, Mark, Result};
use semel_engine::summary::Summary;

use super::answers::Answers;
use super::batch::{Batch, Lines};
use super::sink::{Halt, Sink};
use super::{Context, Go};

/// A sink, and the store that records what it took.
pub(super) struct Admitting {
    sink: Arc<Mutex<Sink>>,
    checkpoints: AnyCheckpointStore,
}

impl Admitting {
    pub(super) fn new(sink: Sink, checkpoints: AnyCheckpointStore) -> Self {
        Self {
            sink: Arc::new(Mutex::new(sink)),
            checkpoints,
        }
    }

    /// Settles a batch. If it meets a key that another claim holds, the whole batch waits, so that
    /// lines stay in order.
    pub(super) async fn settle(&self, context: &mut Context, batch: Batch) -> Result<Go> {
        let (lines, mut requests) = (Arc::new(batch.lines), batch.requests);
        loop {
            let report = Arc::<Mutex<Report>>::default();
            let write = Step {
                sink: Arc::clone(&self.sink),
                lines: Arc::clone(&lines),
                summary: context.summary,
                report: Arc::clone(&report),
            };
            let admitted = self.checkpoints.admit_with(requests, write.boxed()).await;
            let report = std::mem::take(&mut *locked(&report));
            match (admitted, report) {
                (Ok(_), Report::Written(answers, mark)) => {
                    locked(&self.sink).recorded(mark);
                    context.summary = answers.summary;
                    context.set_aside(&lines, &answers.aside).await?;
                    return Ok(Go::Continue(()));
                }
                (Err(_), Report::Known(summary)) => {
                    context.summary = summary;
                    return Ok(Go::Continue(()));
                }
                (Err(_), Report::Ended(summary)) => {
                    context.summary = summary;
                    return Ok(Go::Break(()));
                }
                (Err(_), Report::Busy(wait)) => {
                    if context.wait(wait).await.is_break() {
                        return Ok(Go::Break(()));
                    }
                    requests = context.extractor.again(&lines, 0..lines.len())?;
                }
                (Err(error), Report::Written(..) | Report::Nothing) => {
                    locked(&self.sink).undo(&error);
                    return Err(error);
                }
                (
                    Ok(_),
                    Report::Nothing | Report::Known(_) | Report::Ended(_) | Report::Busy(_),
                ) => {
                    let message = "the store has committed what was not written";
                    return Err(Error::new(ErrorKind::Internal, message));
                }
            }
        }
    }
}

/// The result of the step in the middle.
#[derive(Default)]
enum Report {
    /// The step failed, or never ran.
    #[default]
    Nothing,
    Written(Answers, Mark),
    /// Every line is a duplicate of something finished: nothing to write, nothing to record.
    Known(Summary),
    /// Another claim holds one of the keys, for this long.
    Busy(Duration),
    /// The reader is gone; the counts leave out what was not written.
    Ended(Summary),
}

/// The step between the decision and the commit. It runs where the store decides.
struct Step {
    sink: Arc<Mutex<Sink>>,
    lines: Arc<Lines>,
    summary: Summary,
    report: Arc<Mutex<Report>>,
}

impl Step {
    fn boxed(self) -> Write {
        Box::new(move |admissions| {
            let (report, mark) = self.run(admissions);
            *locked(&self.report) = report;
            mark
        })
    }

    fn run(&self, admissions: &[Admission]) -> (Report, Result<Mark>) {
        let mut answers = Answers::of(admissions, self.summary);
        if let Some(error) = answers.failed.take() {
            return (Report::Nothing, Err(error));
        }
        if let Some((_, wait)) = answers.busy {
            return (Report::Busy(wait), Err(not_yet("a key is busy")));
        }
        // A run over lines that are already known, after a crash for example, costs no sync.
        if answers.known == admissions.len() {
            return (
                Report::Known(answers.summary),
                Err(not_yet("nothing is new")),
            );
        }
        match locked(&self.sink).write(&self.lines, &answers) {
            Ok(mark) => (Report::Written(answers, mark.clone()), Ok(mark)),
            Err(Halt::Ended) => {
                let summary = Answers::given_up(admissions, self.summary);
                (Report::Ended(summary), Err(not_yet("nobody reads")))
            }
            Err(Halt::Failed(error)) => (Report::Nothing, Err(error)),
        }
    }
}

/// Takes the decisions back; no caller sees this error.
fn not_yet(why: &str) -> Error {
    Error::new(ErrorKind::Conflict, why)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
