//! `semel replay`: runs messages once more through their pipeline, each marked with the id of the replay.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use semel_backends::layered::Layer;
use semel_backends::source;
use semel_broker_file::Format;
use semel_config::{PipelineSettings, SourceSettings};
use semel_core::port::source::{Acknowledgement, DeliveryId, Fetched, Progress, Source};
use semel_core::units::duration_text;
use semel_core::{Claimant, Clock, Error, ErrorKind, Result};
use semel_engine::pipeline::REPLAY_ID;
use semel_engine::surroundings::Surroundings;
use semel_engine::system::SystemEntropy;
use semel_supervisor::{Ended, StoreWatch, preflight, same_file};
use semel_worker::run::{Run, run};
use semel_worker::settings::EffectSettings;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::{self, Output};
use crate::command::notices;
use crate::command::operate::{self, Ground, usage};
use crate::command::run::listen;
use crate::command::summary;
use crate::output::Plan;
use crate::progress::Bars;
use crate::{Exit, output};

/// Forecasts what would be run again, and with `--yes` runs it.
pub(crate) fn replay(arguments: &args::Replay) -> Result<Exit> {
    output::set_log(arguments.log.format);
    let verb = async |ground: &Ground| {
        let settings = pipeline(ground)?;
        ground.refuse_its_file(settings)?;
        let source = source(settings, arguments.from.as_deref());
        refuse(settings, &source, arguments)?;
        same_file::refuse(&settings.pipeline.name, &source, &settings.effect)?;
        let age = age(settings, &source, arguments.newer_than).await?;
        if age == Age::Unknown && !settings.pipeline.live_only && !arguments.allow_expired {
            return Err(expired(settings, &source));
        }
        let mut plan = Plan::new("replay", "source", "sources");
        plan.add(format_args!(
            "{}  {source}{}, as {}",
            settings.pipeline.name,
            arguments.newer_than.map_or_else(String::new, |age| {
                format!(", what is newer than {}", duration_text(age))
            }),
            arguments.id
        ));
        for remark in remarks(settings, age, arguments.allow_expired) {
            plan.remark(remark);
        }
        ground.remark_on_use(&mut plan);
        if let ControlFlow::Break(exit) = plan.confirmed(arguments.confirm) {
            return Ok(exit);
        }
        replay_one(ground, settings, &source, arguments).await
    };
    if arguments.confirm.yes {
        operate::run(&arguments.common, verb)
    } else {
        operate::look(&arguments.common, verb)
    }
}

/// The named pipeline, else the only one.
fn pipeline(ground: &Ground) -> Result<&PipelineSettings> {
    if ground.pipelines.is_empty() {
        return Err(usage(
            "to run messages again takes their pipeline: name the configuration with --config FILE",
        ));
    }
    let scope = ground.scope()?;
    ground.pipeline_of(&scope).ok_or_else(|| {
        usage(format!(
            "the configuration has no pipeline `{}`",
            scope.operation()
        ))
    })
}

fn source(settings: &PipelineSettings, from: Option<&Path>) -> SourceSettings {
    let format = match &settings.source {
        SourceSettings::File { format, .. } | SourceSettings::Stdin { format } => *format,
        SourceSettings::Kafka(_) | SourceSettings::Nats(_) | SourceSettings::Amqp(_) => {
            Format::default()
        }
    };
    match from {
        None => settings.source.clone(),
        Some(path) if path.as_os_str() == OsStr::new("-") => SourceSettings::Stdin { format },
        Some(path) => SourceSettings::File {
            path: path.to_owned(),
            format,
        },
    }
}

/// Refuses what cannot be replayed, before anything begins.
fn refuse(
    settings: &PipelineSettings,
    source: &SourceSettings,
    arguments: &args::Replay,
) -> Result<()> {
    if let EffectSettings::Streamed(_) = &settings.effect {
        let message = format!(
            "{}: what a streamed pipeline did is known to the worker that has the partition, and nobody else \
             can do it beside that worker: publish the messages to its source again, with the header {REPLAY_ID}",
            settings.pipeline.name
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    if arguments.newer_than.is_some() && !has_times(source) {
        return Err(usage(format!(
            "--newer-than is of a Kafka topic or a NATS stream, which know when they took a message in; this \
             is {source}"
        )));
    }
    Ok(())
}

/// Tells whether the source can be read from any time on.
const fn has_times(source: &SourceSettings) -> bool {
    matches!(source, SourceSettings::Kafka(_) | SourceSettings::Nats(_))
}

/// The known limits on the age of the messages that are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    /// Each message says when it was born, and a message that is older than the window is set aside.
    Told,
    /// All messages are younger than the window.
    Young,
    Unknown,
}

async fn age(
    settings: &PipelineSettings,
    source: &SourceSettings,
    newer_than: Option<Duration>,
) -> Result<Age> {
    let pipeline = &settings.pipeline;
    if pipeline.birth.is_some() {
        return Ok(Age::Told);
    }
    let (window, margin) = (pipeline.window.duration(), pipeline.window.margin());
    if newer_than.is_some_and(|age| age <= window.saturating_sub(margin)) {
        return Ok(Age::Young);
    }
    if !has_times(source) {
        return Ok(Age::Unknown);
    }
    Ok(match source::reach(source, pipeline.lease).await? {
        Some(reach) if reach.is_stamped => Age::Told,
        Some(_) | None => Age::Unknown,
    })
}

/// The error of a replay that would repeat effects whose records are forgotten.
fn expired(settings: &PipelineSettings, source: &SourceSettings) -> Error {
    let window = duration_text(settings.pipeline.window.duration());
    let limit = if has_times(source) {
        ", read less of it with --newer-than,"
    } else {
        ""
    };
    usage(format!(
        "{}: messages of {source} may be older than the window ({window}), and what was done that long ago \
         would be done again: set `birth` in the pipeline{limit} or accept it with --allow-expired",
        settings.pipeline.name
    ))
}

/// Facts that a person should know before saying yes.
fn remarks(settings: &PipelineSettings, age: Age, allow_expired: bool) -> Vec<String> {
    let window = duration_text(settings.pipeline.window.duration());
    let mut remarks = vec![format!(
        "what was done within the window ({window}) is replayed from its record, not done again"
    )];
    if settings.pipeline.live_only {
        remarks.push(
            "the pipeline is live_only: whatever has no record is quarantined, not done".to_owned(),
        );
        return remarks;
    }
    match age {
        Age::Told | Age::Unknown if allow_expired => remarks.push(format!(
            "--allow-expired: what was done longer than {window} ago and has no record any more is done again"
        )),
        Age::Told => remarks.push(format!(
            "what is older than {window} and has no record is quarantined, not done"
        )),
        Age::Young | Age::Unknown => {}
    }
    remarks
}

async fn replay_one(
    ground: &Ground,
    settings: &PipelineSettings,
    source: &SourceSettings,
    arguments: &args::Replay,
) -> Result<Exit> {
    let stores = ground.stores.as_ref().ok_or_else(|| {
        let message = "the store was not opened to run effects";
        Error::new(ErrorKind::Internal, message)
    })?;
    let all = preflight::effects(std::slice::from_ref(settings));
    preflight::preflight(&ground.url, ground.accepted, stores, all, notices::print).await?;
    let store_watch = StoreWatch::of(&ground.url);
    let bars = Bars::new();
    let log = bars.event_log(arguments.log);
    let stop = watch::channel(false).0;
    let mut beside = JoinSet::new();
    beside.spawn(listen(stop.clone(), bars.clone())?);
    beside.spawn(store_watch.clone().watch(stop.clone()));
    let clock: Arc<dyn Clock> = ground.clock();
    let mut pipeline = settings.pipeline.clone();
    if arguments.allow_expired {
        // The age gate goes by it.
        pipeline.birth = None;
    }
    let (name, limit) = (pipeline.name.clone(), pipeline.max_message_bytes);
    let since = arguments.newer_than.map(|age| ground.now().minus(age));
    let source = match source {
        // Input that `--from` names is read only once.
        SourceSettings::Stdin { .. } if arguments.from.is_some() => {
            source::open(source, limit, pipeline.lease).await?
        }
        source => source::open_again(source, limit, pipeline.lease, since).await?,
    };
    let source = Marked {
        source,
        id: arguments.id.clone().into_bytes().into(),
        allow_expired: arguments.allow_expired,
    };
    let (stores, layer) = Layer::over(
        &settings.layers.front,
        stores.clone(),
        &clock,
        &SystemEntropy,
    )?;
    let around = Run {
        surroundings: Surroundings {
            clock,
            entropy: Arc::new(SystemEntropy),
            claimant: Claimant::random(&SystemEntropy),
            observer: log.clone(),
        },
        stop,
        patience: ground.patience,
        on_progress: Some(bars.of(&name)),
        dead_letters: settings.dead_letter.clone(),
    };
    let summary = run(pipeline, settings.effect.clone(), source, stores, around).await;
    beside.shutdown().await;
    bars.clear();
    log.close();
    let ended = Ended {
        layer: layer.figures(),
        waived: settings.waived,
        ..Ended::from(summary?)
    };
    let text = match arguments.format.output {
        Output::Table => format!(
            "{}\n{name}: replay {}",
            summary::table(&name, &ended, ground.accepted, &log),
            arguments.id
        ),
        Output::Json | Output::Jsonl => {
            let json = Json {
                summary: summary::Json::of(&name, &ended, ground.accepted),
                replay_id: &arguments.id,
            };
            serde_json::to_string(&json).unwrap_or_default()
        }
    };
    output::data(text).map_err(output::cannot_print)?;
    store_watch.check().map(|()| Exit::Done)
}

/// The summary of a run, and the id of its replay.
#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    summary: summary::Json<'a>,
    replay_id: &'a str,
}

/// A source whose messages all carry the id of a replay, whatever id they carried before.
struct Marked<S> {
    source: S,
    id: bytes::Bytes,
    /// True if the age of the messages is hidden.
    allow_expired: bool,
}

// A method that is not forwarded would be the default one.
#[deny(clippy::missing_trait_methods)]
impl<S: Source> Source for Marked<S> {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        let mut fetched = self.source.fetch(max).await?;
        if let Fetched::Deliveries(deliveries) = &mut fetched {
            for delivery in deliveries {
                let headers = &mut delivery.headers;
                headers.retain(|(name, _)| !name.eq_ignore_ascii_case(REPLAY_ID));
                headers.push((REPLAY_ID.into(), self.id.clone()));
                if self.allow_expired {
                    delivery.appended_at = None;
                }
            }
        }
        Ok(fetched)
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        self.source.acknowledge(batch).await
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.source.requeue(batch).await
    }

    async fn extend(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.source.extend(batch).await
    }

    async fn close(&mut self) -> Result<()> {
        self.source.close().await
    }

    fn progress(&self) -> Option<Progress> {
        self.source.progress()
    }

    fn hold(&self) -> Option<Duration> {
        self.source.hold()
    }
}
