//! Runs parked messages again: the forecast, the operator's consent, and a run per pipeline.

use std::collections::BTreeSet;
use std::env::args_os;
use std::ops::ControlFlow;
use std::sync::Arc;

use clap::Args;
use semel_backends::changelog::streamed;
use semel_config::{Accepted, Layers, PipelineSettings};
use semel_core::decide::{Directed, Directive, Order};
use semel_core::port::store::Store;
use semel_core::{Claimant, Clock, Error, ErrorKind, Key, Note, Operation, Result, Scope};
use semel_engine::surroundings::Surroundings;
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_operate::order::{BATCH, refusal_text};
use semel_operate::parked::Search;
use semel_render::names::place_text;
use semel_render::reports::parked::parked_line;
use semel_render::run::{Console, notices, summary};
use semel_supervisor::event_log::EventLog;
use semel_supervisor::replay::ReplayResult;
use semel_supervisor::{PipelineSummary, StoreWatch, VerbTraces, preflight};
use semel_worker::replay::{Job, Kind, Report};
use semel_worker::run::{Run, Stores};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::forecast::Forecast;
use super::name::{Messages, look_up};
use super::publishing::{Sent, publish};
use crate::args::{Confirm, Format, Log, Output, Rerun, Within};
use crate::command::operate::{self, Ground, note_of, usage};
use crate::command::run::listen;
use crate::output::key_text;
use crate::progress::Bars;
use crate::{Exit, output};

/// The way in which messages are run again.
pub(crate) struct Running {
    pub(crate) note: Note,
    /// The key under which one message runs, in place of its own.
    pub(crate) key: Option<Key>,
    pub(crate) confirm: Confirm,
    pub(crate) format: Format,
    pub(crate) log: Log,
}

impl Running {
    /// Takes it from the arguments.
    pub(crate) fn of<W: Args>(arguments: &Rerun<W>) -> Self {
        Self {
            note: note_of(&arguments.audit),
            key: None,
            confirm: arguments.confirm,
            format: arguments.format,
            log: arguments.log,
        }
    }
}

/// The messages and doubts to run again.
pub(crate) struct Meant {
    /// The messages.
    pub(crate) search: Search,
    /// Doubts without a message, which wait for the next message.
    pub(crate) alone: Vec<Operation>,
    /// The pipelines and tenants of doubts that were named by their keys.
    pub(crate) named: BTreeSet<Scope>,
    /// True if nothing that was asked for is left out; otherwise the reason was reported.
    pub(crate) is_whole: bool,
}

impl From<Search> for Meant {
    fn from(search: Search) -> Self {
        Self {
            search,
            alone: Vec::new(),
            named: BTreeSet::new(),
            is_whole: true,
        }
    }
}

/// Runs the messages in `meant` again, or forecasts what would become of them.
pub(crate) fn replay(
    common: &Within,
    running: &Running,
    meant: &impl AsyncFn(&Ground) -> Result<Meant>,
) -> Result<Exit> {
    output::set_log(running.log.format);
    let verb = async |ground: &Ground| {
        // A doubt of a claim takes no pipeline: it waits for the next claim.
        if ground.has_neither_pipelines_nor_claims() {
            return Err(usage(
                "to run messages again takes their pipeline: name the configuration with --config FILE",
            ));
        }
        let Meant {
            search,
            alone,
            named,
            is_whole,
        } = meant(ground).await?;
        let Messages {
            count,
            search,
            mut scopes,
        } = match look_up(ground, &search).await? {
            ControlFlow::Break(()) => return Ok(Exit::No),
            ControlFlow::Continue(messages) => messages,
        };
        if running.key.is_some() && count != 1 {
            return Err(usage(format!(
                "--key is of one message, and this names {count}; type an id"
            )));
        }
        scopes.extend(named);
        // A program reads all of it; a person reads the first few and the number.
        let is_data = running.format.output != Output::Table;
        let listed = Some(running.format).filter(|_| is_data && !running.confirm.yes);
        let mut forecast = Forecast::make(ground, &search, running.key.as_ref(), listed).await?;
        let is_refused = !forecast.refused.is_empty() || !is_whole;
        for (why, count) in &forecast.refused {
            let stay = if *count == 1 { "stays" } else { "stay" };
            let left = format!("{count} {stay} as they are: {why}");
            if forecast.plan.count() == 0 {
                output::note(left);
            } else {
                forecast.plan.remark(left);
            }
        }
        for operation in &alone {
            let arrival = ground.arrival_of(&operation.scope);
            let thing = format_args!(
                "{}  {}  no message is kept: released for the next {} of its key",
                place_text(&operation.scope),
                key_text(operation.key.as_str()),
                arrival.of("one", "claim", "request")
            );
            forecast.plan.add_of(&operation.scope, thing);
        }
        if let Some(key) = &running.key {
            forecast.plan.remark(format_args!(
                "it is an operation of its own, under the key {}",
                key_text(key.as_str())
            ));
        }
        ground.remark_on_use(&mut forecast.plan);
        ground.bind_tenants(&mut forecast.plan, &scopes);
        for scope in forecast.bytes.keys() {
            if let Some(settings) = ground.pipeline_of(scope) {
                ground.refuse_its_file(settings)?;
            }
        }
        if let ControlFlow::Break(exit) = forecast.plan.confirmed(running.confirm, args_os()) {
            return Ok(if is_refused { Exit::No } else { exit });
        }
        let is_released = release(ground, &alone, running).await?;
        let exit = if forecast.bytes.is_empty() {
            Exit::Done
        } else {
            run_all(ground, &search, running, &forecast).await?
        };
        Ok(if is_refused || !is_released {
            Exit::No
        } else {
            exit
        })
    };
    if running.confirm.yes {
        operate::run(common, verb)
    } else {
        operate::look(common, verb)
    }
}

/// Lets the next message try these doubts, which have none, again; returns whether all were released.
async fn release(ground: &Ground, alone: &[Operation], running: &Running) -> Result<bool> {
    let mut released = 0;
    for batch in alone.chunks(BATCH) {
        let directives = batch
            .iter()
            .map(|operation| Directive {
                operation: operation.clone(),
                order: Order::Retry,
                note: Some(running.note.clone()),
            })
            .collect();
        let answers = ground.store.operate(directives).await?;
        for (operation, answer) in batch.iter().zip(answers) {
            match answer {
                Directed::Now(_) => released += 1,
                Directed::Refused(refusal) => output::note(format_args!(
                    "{}: refused: {}",
                    key_text(operation.key.as_str()),
                    refusal_text(refusal, ground.now())
                )),
                Directed::Failed(error) => return Err(error),
            }
        }
    }
    if released > 0 {
        output::note(format_args!(
            "released: {released}, for the next message or claim of each key"
        ));
    }
    Ok(released == alone.len())
}

async fn run_all(
    ground: &Ground,
    search: &Search,
    running: &Running,
    forecast: &Forecast,
) -> Result<Exit> {
    let stores = ground.stores.as_ref().ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            "the store was not opened to run effects",
        )
    })?;
    let store_watch = StoreWatch::of(&ground.url);
    let scopes = forecast.bytes.keys();
    let pipelines = scopes.filter_map(|scope| ground.pipeline_of(scope));
    let all = preflight::effects(pipelines);
    preflight::preflight(&ground.url, ground.accepted, stores, all, notices::print).await?;
    let bars = Bars::new();
    let log = bars.event_log(running.log.format, running.log.level);
    let stop = watch::channel(false).0;
    let mut beside = JoinSet::new();
    beside.spawn(listen(stop.clone(), bars.clone())?);
    beside.spawn(store_watch.clone().watch(stop.clone()));
    let claimant = Claimant::random(&SystemEntropy);
    let console = Arc::new(Console::new(bars.clone(), log.clone()));
    let traces = VerbTraces::begin(&ground.telemetry, ground.url.clone(), claimant, console);
    let surroundings = Surroundings {
        clock: Arc::new(SystemClock::new()) as Arc<dyn Clock>,
        entropy: Arc::new(SystemEntropy),
        claimant,
        observer: log.clone(),
    };
    let mut failure = None;
    let mut reports = Vec::new();
    for (scope, &bytes) in &forecast.bytes {
        let Some(settings) = ground.pipeline_of(scope).filter(|_| !*stop.borrow()) else {
            continue;
        };
        let name = settings.pipeline.name.clone();
        // The messages are run without the layers of the pipeline, so nothing answers a claim in place of the store.
        let without_layers = PipelineSettings {
            layers: Layers::default(),
            ..settings.clone()
        };
        let (surroundings, _) = traces.watch(&without_layers, surroundings.clone());
        let around = Run {
            surroundings,
            stop: stop.clone(),
            patience: ground.patience,
            recalled: None,
            on_progress: Some(bars.of(&name)),
            dead_letters: match search.kind {
                // These messages are dead letters already.
                Kind::DeadLetters => None,
                Kind::InDoubt | Kind::Quarantined => settings.dead_letter.clone(),
            },
        };
        let job = Job {
            kind: search.kind,
            wanted: search.wanted(),
            stands: None,
            count: None,
            until: forecast.until,
            total_bytes: bytes,
            note: running.note.clone(),
            key: running.key.clone(),
            on_taken: None,
            on_fate: None,
        };
        let done = if streamed(settings).is_some() {
            let sent = publish(ground, settings, search, &job, &stop).await;
            sent.map(Done::Sent)
        } else {
            run_one(settings, stores, around, job).await.map(Done::Ran)
        };
        match done {
            Ok(done) => reports.push((name, done)),
            Err(error) => {
                bars.note(&format!("{name}: stopped by an error"));
                failure = Some(error);
                break;
            }
        }
    }
    traces.end().await;
    beside.shutdown().await;
    bars.clear();
    for (name, done) in &reports {
        let print = Print {
            kind: search.kind,
            format: running.format.output,
            accepted: ground.accepted,
        };
        match done {
            Done::Ran(report) => print.report(name, report, &log)?,
            Done::Sent(sent) => sent.print(name, print.format)?,
        }
    }
    failure.map_or_else(|| store_watch.check().map(|()| Exit::Done), Err)
}

/// The result for the messages of one pipeline.
enum Done {
    /// The messages were run here.
    Ran(Report),
    /// The messages went to the worker that alone can run them.
    Sent(Sent),
}

async fn run_one(
    settings: &PipelineSettings,
    stores: &Stores,
    around: Run,
    job: Job,
) -> Result<Report> {
    let (pipeline, effect) = (settings.pipeline.clone(), settings.effect.clone());
    semel_worker::replay::replay(pipeline, effect, stores.clone(), around, job).await
}

/// The way in which a report is printed.
struct Print {
    kind: Kind,
    format: Output,
    accepted: Accepted,
}

impl Print {
    fn report(&self, name: &str, report: &Report, log: &EventLog) -> Result<()> {
        log.close();
        let Report { summary, tally } = report;
        let ended = &PipelineSummary::from(*summary);
        let text = match self.format {
            Output::Table => {
                let table = summary::table(name, ended, self.accepted, log);
                let left = tally.kept + tally.refused;
                table + &parked_line(name, self.kind, tally.dropped, left)
            }
            Output::Json | Output::Jsonl => {
                let json = ReplayResult::of(name, report, self.accepted);
                serde_json::to_string(&json).unwrap_or_default()
            }
        };
        output::data(text).map_err(output::cannot_print)
    }
}
