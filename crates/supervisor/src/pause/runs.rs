//! The runs of a pipeline or a relay, which an order ends, and after which another one follows once it is taken back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use semel_operate::pipelines::{OrderedPause, PauseKind};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{KnownOrder, UntilDrained};
use crate::notice::{Notice, Reporter};
use crate::status::Status;

/// The runs of one pipeline, or of one relay.
pub(crate) struct Runs {
    pub(crate) pipeline: Box<str>,
    pub(crate) order: watch::Receiver<KnownOrder>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) status: Arc<Status>,
    pub(crate) reporter: Arc<dyn Reporter>,
}

/// One run, which an order may end. Dropping it ends the look at the order, not the run.
pub(crate) struct OrderedRun {
    order: watch::Receiver<KnownOrder>,
    recalled: watch::Receiver<bool>,
    is_drained: Arc<AtomicBool>,
    is_resumed: bool,
    _watching: JoinSet<()>,
}

impl Runs {
    /// Waits until the pipeline is to run, and returns its next run; nothing if a stop is asked for first.
    pub(crate) async fn next(&mut self) -> Option<OrderedRun> {
        let mut told: Option<OrderedPause> = None;
        loop {
            let order = self.order.borrow_and_update().clone();
            match order {
                KnownOrder::Run => break,
                KnownOrder::Paused(pause) if told.as_ref() != Some(&pause) => {
                    // Whoever sees the status finds the line in the log.
                    self.reporter.report(&Notice::Paused {
                        pipeline: &self.pipeline,
                        pause: &pause,
                    });
                    self.status.paused(&self.pipeline, Some(pause.clone()));
                    told = Some(pause);
                }
                KnownOrder::Paused(_) | KnownOrder::Unknown => {}
            }
            let is_known = tokio::select! {
                biased;
                _ = self.stop.wait_for(|is_asked| *is_asked) => return None,
                changed = self.order.changed() => changed.is_ok(),
            };
            if !is_known {
                // Nobody asks the store any more: the worker ends.
                let _ = self.stop.wait_for(|is_asked| *is_asked).await;
                return None;
            }
        }
        if told.is_some() {
            self.reporter.report(&Notice::Resumed {
                pipeline: &self.pipeline,
            });
        }
        self.status.paused(&self.pipeline, None);
        Some(self.run(told.is_some()))
    }

    fn run(&self, is_resumed: bool) -> OrderedRun {
        let (recall, recalled) = watch::channel(false);
        let watching = watching(
            self.pipeline.clone(),
            self.order.clone(),
            recall,
            (Arc::clone(&self.status), Arc::clone(&self.reporter)),
        );
        let mut tasks = JoinSet::new();
        tasks.spawn(watching);
        OrderedRun {
            order: self.order.clone(),
            recalled,
            is_drained: Arc::default(),
            is_resumed,
            _watching: tasks,
        }
    }
}

impl OrderedRun {
    /// The channel that has the order.
    pub(crate) fn order(&self) -> watch::Receiver<KnownOrder> {
        self.order.clone()
    }

    /// The channel by which the run is recalled.
    pub(crate) fn recalled(&self) -> watch::Receiver<bool> {
        self.recalled.clone()
    }

    /// Tells whether it follows a pause.
    pub(crate) const fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Waits for an order that ends the run while nothing of it is in hand: to drain it is done then, as to pause it is.
    pub(crate) async fn is_called_off(&self) {
        let (mut order, mut recalled) = (self.order.clone(), self.recalled.clone());
        let is_drained = async {
            let asked = order.wait_for(|order| order.is(PauseKind::Drain));
            let is_asked = asked.await.is_ok();
            if !is_asked {
                std::future::pending::<()>().await;
            }
        };
        let is_recalled = async {
            let asked = recalled.wait_for(|is_recalled| *is_recalled);
            let is_asked = asked.await.is_ok();
            if !is_asked {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = is_recalled => {}
            () = is_drained => self.is_drained.store(true, Ordering::Relaxed),
        }
    }

    /// Returns a source that ends when the pipeline is to be drained.
    pub(crate) fn until_drained<S>(&self, source: S) -> UntilDrained<S> {
        UntilDrained::new(source, self.order.clone(), Arc::clone(&self.is_drained))
    }

    /// Tells whether an order has ended the run, so that another one may follow.
    pub(crate) fn has_ended_by_order(&self) -> bool {
        self.is_drained.load(Ordering::Relaxed) || *self.recalled.borrow()
    }
}

/// Looks at the order during a run: recalls the run when the pipeline is paused, or when the order to drain it is followed
/// by another one, since a source that has ended does not begin again.
async fn watching(
    pipeline: Box<str>,
    mut order: watch::Receiver<KnownOrder>,
    recall: watch::Sender<bool>,
    (status, reporter): (Arc<Status>, Arc<dyn Reporter>),
) {
    let mut is_draining = false;
    loop {
        let known = order.borrow_and_update().clone();
        let is_drain = known.is(PauseKind::Drain);
        if let KnownOrder::Paused(pause) = known {
            reporter.report(&Notice::Pausing {
                pipeline: &pipeline,
                pause: &pause,
            });
            status.is_to_pause(&pipeline, pause);
            if !is_drain {
                recall.send_replace(true);
            }
        } else if is_draining {
            recall.send_replace(true);
        }
        is_draining |= is_drain;
        if *recall.borrow() {
            // The channel stays open for as long as the run lasts.
            recall.closed().await;
            return;
        }
        if order.changed().await.is_err() {
            recall.closed().await;
            return;
        }
    }
}
