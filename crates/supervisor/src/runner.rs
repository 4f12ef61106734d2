//! Messages that were set aside, run again beside their pipelines for the admin API: in this process, over the store that
//! it has open, with the effect of their own pipeline.

use std::sync::Arc;
use std::time::Duration;

use semel_admin::{Lent, Paused, Ran, Runner};
use semel_config::{Accepted, Layers, PipelineSettings, Settings, StoreUrl};
use semel_core::port::store::AnyStore;
use semel_core::{Claimant, Error, ErrorKind};
use semel_engine::event::{Event, FanOut, Observer, Origin};
use semel_engine::surroundings::Surroundings;
use semel_telemetry::traces::Traces;
use semel_worker::replay::{Job, Kind, replay};
use semel_worker::run::{Run, Stores};
use tokio::sync::watch;

use crate::pause::Pauses;
use crate::replay::ReplayResult;
use crate::status::Status;
use crate::traces;

/// Runs messages that were set aside, by the means of their worker.
pub(crate) struct WorkerRunner {
    /// The surroundings of the pipelines, but for what watches their health: a target that is away from these messages
    /// does not make the worker unready, and one that is back does not make it ready.
    around: Surroundings,
    url: StoreUrl,
    stores: Stores,
    traces: Option<Traces>,
    /// The counts of the worker, if anybody can ask for them.
    counted: Option<Arc<Status>>,
    stop: watch::Sender<bool>,
    patience: Duration,
    accepted: Accepted,
    /// The orders about the pipelines.
    pauses: Arc<Pauses>,
}

impl WorkerRunner {
    /// Returns what runs messages again for a worker.
    pub(crate) fn of(
        (settings, stores, status, traces): (&Settings, &Stores, &Arc<Status>, Option<&Traces>),
        around: &Surroundings,
        observer: &Arc<dyn Observer>,
        (stop, pauses): (&watch::Sender<bool>, &Arc<Pauses>),
    ) -> Self {
        let is_scraped = settings.admin.listen.is_some();
        Self {
            around: Surroundings {
                observer: Arc::clone(observer),
                ..around.clone()
            },
            url: settings.store.clone(),
            stores: stores.clone(),
            traces: traces.cloned(),
            counted: is_scraped.then(|| Arc::clone(status)),
            stop: stop.clone(),
            patience: settings.shutdown,
            accepted: settings.accepted,
            pauses: Arc::clone(pauses),
        }
    }

    /// Lends the store to the admin API, and itself.
    pub(crate) fn lend(self, to: &watch::Sender<Option<Lent>>, store: &AnyStore) {
        to.send_replace(Some(Lent {
            store: store.clone(),
            trail: self.stores.transfer.clone(),
            runner: Some(Arc::new(self)),
        }));
    }

    /// Returns the surroundings of a run of a pipeline. Its claims are not those of the pipeline.
    fn around(&self, settings: &PipelineSettings) -> Surroundings {
        let mut around = self.around.clone();
        around.claimant = Claimant::random(&*around.entropy);
        if let Some(status) = &self.counted {
            let (name, effect) = (&settings.pipeline.name, settings.effect.kind());
            let counts = Arc::new(Beside(Arc::new(status.metrics().pipeline(name, effect))));
            around.observer = Arc::new(FanOut::new([counts as _, around.observer]));
        }
        if let Some(traces) = &self.traces {
            let _ = traces::watch(traces, settings, &self.url, &mut around);
        }
        around
    }
}

impl Runner for WorkerRunner {
    fn run(&self, settings: &PipelineSettings, job: Job, recalled: watch::Receiver<bool>) -> Ran {
        // The messages run without the layers of the pipeline, so nothing answers a claim in place of the store.
        let settings = PipelineSettings {
            layers: Layers::default(),
            ..settings.clone()
        };
        let around = Run {
            surroundings: self.around(&settings),
            stop: self.stop.clone(),
            patience: self.patience,
            recalled: Some(recalled),
            on_progress: None,
            dead_letters: match job.kind {
                // These messages are dead letters already.
                Kind::DeadLetters => None,
                Kind::InDoubt | Kind::Quarantined => settings.dead_letter.clone(),
            },
        };
        let (stores, accepted) = (self.stores.clone(), self.accepted);
        Box::pin(async move {
            let (pipeline, effect) = (settings.pipeline, settings.effect);
            let name = pipeline.name.clone();
            let report = replay(pipeline, effect, stores, around, job).await?;
            let result = ReplayResult::of(&name, &report, accepted);
            serde_json::to_value(result).map_err(|error| {
                let message = "the report does not fit into JSON";
                Error::new(ErrorKind::Internal, message).with_source(error)
            })
        })
    }

    fn paused(&self, pipelines: &[Box<str>]) -> Paused {
        Box::pin(self.pauses.paused_anew(pipelines))
    }
}

/// The counts of a pipeline, from a run beside it. What is in hand now is that of the pipeline alone.
struct Beside(Arc<dyn Observer>);

impl Observer for Beside {
    fn observe(&self, pipeline: &str, event: &Event<'_>) {
        if !matches!(event, Event::InHand { .. }) {
            self.0.observe(pipeline, event);
        }
    }

    fn observe_message(&self, pipeline: &str, event: &Event<'_>, origin: Origin<'_>) {
        if !matches!(event, Event::InHand { .. }) {
            self.0.observe_message(pipeline, event, origin);
        }
    }

    fn is_watching(&self) -> bool {
        self.0.is_watching()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Notes the events that it was told.
    #[derive(Default)]
    struct Noted(Mutex<Vec<&'static str>>);

    impl Observer for Noted {
        fn observe(&self, _: &str, event: &Event<'_>) {
            let word = match event {
                Event::InHand { .. } => "in hand",
                _ => "another",
            };
            self.0.lock().expect("no panic").push(word);
        }
    }

    #[test]
    fn what_is_in_hand_is_told_of_the_pipeline_alone() {
        let noted = Arc::new(Noted::default());
        let beside = Beside(noted.clone());
        let in_hand = Event::InHand {
            running: 1,
            held: 0,
        };
        let renewed = Event::Renewed { count: 1, lost: 0 };
        for event in [&in_hand, &renewed] {
            beside.observe("pay", event);
            beside.observe_message("pay", event, Origin::new("in:1", &[]));
        }
        assert_eq!(*noted.0.lock().expect("no panic"), ["another"; 2]);
    }
}
