//! `semel replay`: runs messages once more through their pipeline, each marked with the id of the replay.

use std::env::args_os;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use semel_broker_file::Format;
use semel_config::{PipelineSettings, SourceSettings};
use semel_core::units::duration_text;
use semel_core::{Claimant, Error, ErrorKind, Result};
use semel_engine::pipeline::REPLAY_ID;
use semel_engine::surroundings::Surroundings;
use semel_engine::system::SystemEntropy;
use semel_render::run::{Console, notices, summary};
use semel_supervisor::replay::{Age, Replay, age, has_times};
use semel_supervisor::{PipelineResult, StoreWatch, VerbTraces, preflight, same_file};
use semel_worker::run::Run;
use semel_worker::settings::EffectSettings;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::{self, Output};
use crate::command::operate::{self, Ground, usage};
use crate::command::run::listen;
use crate::output::Plan;
use crate::progress::Bars;
use crate::shell::quoted;
use crate::{Exit, output};

/// Forecasts what would be run again, and with `--yes` runs it.
pub(crate) fn replay(arguments: &args::ReplayArguments) -> Result<Exit> {
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
        if let Some(tenant) = &arguments.common.tenant {
            plan.remark(format_args!(
                "only messages of the tenant {} are run",
                quoted(tenant)
            ));
        }
        for remark in remarks(settings, age, arguments.allow_expired) {
            plan.remark(remark);
        }
        ground.remark_on_use(&mut plan);
        if let ControlFlow::Break(exit) = plan.confirmed(arguments.confirm, args_os()) {
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
    let name = ground.pipeline_name()?;
    let mut all = ground.pipelines.iter();
    let named = all.find(|settings| *settings.pipeline.name == *name);
    named.ok_or_else(|| usage(format!("the configuration has no pipeline `{name}`")))
}

fn source(settings: &PipelineSettings, from: Option<&Path>) -> SourceSettings {
    let format = match &settings.source {
        SourceSettings::File { format, .. } | SourceSettings::Stdin { format } => *format,
        SourceSettings::Kafka(_)
        | SourceSettings::Nats(_)
        | SourceSettings::Amqp(_)
        | SourceSettings::Webhook(_)
        | SourceSettings::Ingest(_) => Format::default(),
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
    arguments: &args::ReplayArguments,
) -> Result<()> {
    if let EffectSettings::Streamed(_) = &settings.effect {
        let message = format!(
            "{}: what a streamed pipeline did is known to the worker that has the partition, and nobody else \
             can do it beside that worker: publish the messages to its source again, with the header {REPLAY_ID}",
            settings.pipeline.name
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    if arguments.common.tenant.is_some() && settings.pipeline.tenant.is_none() {
        let name = &settings.pipeline.name;
        return Err(usage(format!(
            "{name} has no tenants: set `tenant` in the pipeline, or leave --tenant out"
        )));
    }
    if arguments.newer_than.is_some() && !has_times(source) {
        return Err(usage(format!(
            "--newer-than is of a Kafka topic or a NATS stream, which know when they took a message in; this \
             is {source}"
        )));
    }
    Ok(())
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
    arguments: &args::ReplayArguments,
) -> Result<Exit> {
    let stores = ground.stores.as_ref().ok_or_else(|| {
        let message = "the store was not opened to run effects";
        Error::new(ErrorKind::Internal, message)
    })?;
    let all = preflight::effects(std::slice::from_ref(settings));
    preflight::preflight(&ground.url, ground.accepted, stores, all, notices::print).await?;
    let store_watch = StoreWatch::of(&ground.url);
    let bars = Bars::new();
    let log = bars.event_log(arguments.log.format, arguments.log.level);
    let stop = watch::channel(false).0;
    let mut beside = JoinSet::new();
    beside.spawn(listen(stop.clone(), bars.clone())?);
    beside.spawn(store_watch.clone().watch(stop.clone()));
    let name = &*settings.pipeline.name;
    let claimant = Claimant::random(&SystemEntropy);
    let console = Arc::new(Console::new(bars.clone(), log.clone()));
    let traces = VerbTraces::begin(&ground.telemetry, ground.url.clone(), claimant, console);
    let run = Run {
        surroundings: Surroundings {
            clock: ground.clock(),
            entropy: Arc::new(SystemEntropy),
            claimant,
            observer: log.clone(),
        },
        stop,
        patience: ground.patience,
        recalled: None,
        on_progress: Some(bars.of(name)),
        dead_letters: settings.dead_letter.clone(),
    };
    let replay = Replay {
        settings,
        source,
        is_input: matches!(source, SourceSettings::Stdin { .. }) && arguments.from.is_some(),
        since: arguments.newer_than.map(|age| ground.now().minus(age)),
        id: &arguments.id,
        tenant: arguments.common.tenant.as_deref(),
        allow_expired: arguments.allow_expired,
        traces: &traces,
    };
    let ended = replay.run(stores.clone(), run).await;
    traces.end().await;
    beside.shutdown().await;
    bars.clear();
    log.close();
    let ended = &ended?;
    let text = match arguments.format.output {
        Output::Table => format!(
            "{}\n{name}: replay {}",
            summary::table(name, ended, ground.accepted, &log),
            arguments.id
        ),
        Output::Json | Output::Jsonl => {
            let json = Json {
                summary: PipelineResult::of(name, ended, ground.accepted),
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
    summary: PipelineResult<'a>,
    replay_id: &'a str,
}
