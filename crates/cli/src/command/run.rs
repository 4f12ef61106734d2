//! `semel run`: runs every pipeline of a configuration, until its sources end or a signal asks to stop.

pub(super) mod guarded;
mod hindrance;
mod holding;
mod restoring;
mod waiting;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use semel_backends::layered::Layer;
use semel_backends::{source, store, streamed};
use semel_config::{Accepted, Cache, Front, PipelineSettings, Settings, StoreUrl};
use semel_core::{Claimant, Error, ErrorKind, Result};
use semel_engine::layer::outage::{self, Breaker, Policy};
use semel_engine::pipeline::Fail;
use semel_engine::summary::{Fate, Summary};
use semel_engine::surroundings::{Shutdown, Surroundings};
use semel_engine::sweep::sweep_until;
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_operate::check::window::Gate;
use semel_worker::run::{Run, Stores, run_streamed, run_with};
use semel_worker::settings::EffectSettings;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::{self, FailOn, Output};
use crate::command::operate::tell_if_forward;
use crate::command::preflight;
use crate::command::run::guarded::{Guard, Guarded, Outlook, outlooks};
use crate::command::run::waiting::Opened;
use crate::command::summary::{self, Ended};
use crate::configuration::load;
use crate::narrator::Narrator;
use crate::place::Place;
use crate::progress::Bars;
use crate::status::{self, Counting, Status};
use crate::{Exit, output, same_file};

/// Runs the configuration and prints the summary.
pub(crate) fn run(arguments: &args::Run) -> Result<Exit> {
    output::set_log(arguments.log.format);
    let file = arguments.file.as_deref();
    let file = file.or(arguments.common.config.as_deref());
    let read = load(file, &arguments.common.overrides());
    let settings = match read {
        Ok((_, settings)) => settings,
        Err(faults) => {
            for fault in faults {
                output::error(fault);
            }
            return Ok(Exit::Usage);
        }
    };
    for pipeline in &settings.pipelines {
        same_file::refuse(&pipeline.pipeline.name, &pipeline.source, &pipeline.effect)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Unavailable, "cannot start").with_source(error))?;
    let result = runtime.block_on(run_all(settings, arguments));
    // A read of standard input cannot be cancelled; it must not delay the exit.
    runtime.shutdown_background();
    result
}

async fn run_all(settings: Settings, arguments: &args::Run) -> Result<Exit> {
    let format = arguments.format.output;
    let clock = Arc::new(SystemClock::new());
    let before = store::older_format(&settings.store).await;
    let accepted = settings.accepted;
    let bars = Bars::new();
    let narrator = Arc::new(Narrator::new(bars.clone(), arguments.log));
    let (stop, stopped) = watch::channel(false);
    let mut beside = JoinSet::new();
    let status = watching::status(&settings, clock.clone(), stopped.clone());
    if let Some(address) = settings.admin.listen {
        beside.spawn(status::serve(address, Arc::clone(&status)).await?);
    }
    // A server may be slow to answer, and a stop can be asked for while the run waits.
    let is_early = settings.store.is_server();
    if is_early {
        beside.spawn(listen(stop.clone(), bars.clone())?);
    }
    let (url, health) = (&settings.store, status.health());
    let opened = waiting::store(url, accepted, clock.clone(), &bars, health, stopped.clone());
    let Some(Opened { stores, is_new }) = opened.await? else {
        let ended = settings.pipelines.iter().map(never_begun).collect();
        return print(ended, accepted, format, &narrator, true).map(|()| Exit::Done);
    };
    tell_if_forward(&settings.store, before).await?;
    holding::tell(&settings.store, &stores.store, is_new, &bars).await;
    beside.spawn(control(&settings.store, &stores, &bars));
    let place = Place::of(&settings.store);
    let all = preflight::effects(&settings.pipelines);
    preflight::preflight(&settings.store, accepted, &stores, all).await?;
    let claimant = Claimant::random(&SystemEntropy);
    let surroundings = Surroundings {
        clock,
        entropy: Arc::new(SystemEntropy),
        claimant,
        observer: Arc::new(Counting {
            status: Arc::clone(&status),
            beside: narrator.clone(),
        }),
    };
    bars.note(&format!("worker {claimant}"));
    if !is_early {
        beside.spawn(listen(stop.clone(), bars.clone())?);
    }
    let clock = &*surroundings.clock;
    let outlooks = outlooks(&settings.pipelines, clock, &bars, stopped.clone()).await?;
    beside.spawn(place.clone().watch(stop.clone()));
    beside.spawn(sweep_until(
        stores.store.clone(),
        sweep_every(&settings.pipelines),
        Shutdown {
            requested: stopped,
            patience: settings.shutdown,
        },
        narrator.clone(),
    ));
    let breaker = Arc::new(Breaker::new(
        outage::Settings::default(),
        surroundings.clock.clone(),
        surroundings.entropy.clone(),
    ));
    let around = &surroundings;
    watching::begin(&mut beside, &settings, &stores, &status, &breaker, around);
    let mut pipelines = JoinSet::new();
    for (pipeline, (outlook, away)) in settings.pipelines.into_iter().zip(outlooks) {
        bars.note(&banner(&pipeline, accepted, outlook));
        let outage = Policy::sharing(&breaker, pipeline.layers.fail);
        let progress = bars.of(&pipeline.pipeline.name);
        let run = Run {
            surroundings: surroundings.clone(),
            stop: stop.clone(),
            patience: settings.shutdown,
            on_progress: Some(status.counting(
                &pipeline.pipeline.name,
                narrator.habits(&pipeline, progress),
            )),
            dead_letters: pipeline.dead_letter.clone(),
        };
        let guard = (outlook == Outlook::Away).then(|| {
            let clock = surroundings.clock.clone();
            Guard::new(pipeline.clone(), clock, bars.clone(), away)
        });
        let stores = stores.clone();
        let watched = Watched {
            bars: bars.clone(),
            status: Arc::clone(&status),
        };
        pipelines.spawn(run_one(pipeline, stores, run, outage, guard, watched));
    }
    status.begin();
    let (summaries, failure) = ends(pipelines, &stop, &bars).await?;
    beside.shutdown().await;
    bars.clear();
    let exit = judged(&summaries, &arguments.fail_on, &bars);
    print(summaries, accepted, format, &narrator, *stop.borrow())?;
    failure.map_or_else(|| place.check().map(|()| exit), Err)
}

/// Checks whether a run set aside messages that `fail_on` forbids, and says so.
fn judged(summaries: &[(Box<str>, Ended)], fail_on: &[FailOn], bars: &Bars) -> Exit {
    let mut exit = Exit::Done;
    for (name, ended) in summaries {
        let of = |fate| ended.summary.of(fate);
        for fate in fail_on {
            let (count, words) = match fate {
                FailOn::Dead => (of(Fate::Dead), "dead"),
                FailOn::InDoubt => (of(Fate::InDoubt), "in doubt"),
                FailOn::Quarantined => (of(Fate::Quarantined) + of(Fate::TooOld), "quarantined"),
                FailOn::Conflicts => (of(Fate::Conflict), "conflicts"),
            };
            if count > 0 {
                bars.warning(&format!("{name}: {count} {words}, on which the run fails"));
                exit = Exit::No;
            }
        }
    }
    exit
}

/// Takes the orders of verbs, if this process alone has the store open.
fn control(
    url: &StoreUrl,
    stores: &Stores,
    bars: &Bars,
) -> impl Future<Output = ()> + Send + 'static {
    let served = match (url, &stores.lent, &stores.transfer) {
        (StoreUrl::Embedded(path), Some(lent), Some(trail)) => {
            match semel_worker::control::serve(path, lent.clone(), trail.clone()) {
                Ok(served) => Some(served),
                Err(error) => {
                    bars.warning(&format!(
                        "{error}; verbs that change the store want this worker stopped"
                    ));
                    None
                }
            }
        }
        (
            StoreUrl::Embedded(_) | StoreUrl::Memory | StoreUrl::Sqlite(_) | StoreUrl::Server(_),
            ..,
        ) => None,
    };
    async move {
        if let Some(served) = served {
            served.await;
        }
    }
}

/// Waits for all pipelines; one that fails ends the others. Returns their results and the first failure.
async fn ends(
    mut pipelines: JoinSet<(Box<str>, Result<Ended>)>,
    stop: &watch::Sender<bool>,
    bars: &Bars,
) -> Result<(Vec<(Box<str>, Ended)>, Option<Error>)> {
    let mut failure = None;
    let mut summaries = Vec::new();
    while let Some(joined) = pipelines.join_next().await {
        let (name, result) = joined.map_err(|error| {
            Error::new(ErrorKind::Internal, "a pipeline panicked").with_source(error)
        })?;
        match result {
            Ok(ended) => summaries.push((name, ended)),
            Err(error) => {
                bars.note(&format!("{name}: stopped by an error"));
                failure.get_or_insert(error);
                stop.send_replace(true);
            }
        }
    }
    Ok((summaries, failure))
}

/// Prints the result of each pipeline, by name.
fn print(
    mut summaries: Vec<(Box<str>, Ended)>,
    accepted: Accepted,
    format: Output,
    narrator: &Narrator,
    is_stopped: bool,
) -> Result<()> {
    narrator.close();
    summaries.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, ended) in &summaries {
        let text = match format {
            Output::Table => summary::table(name, ended, accepted, narrator),
            Output::Json | Output::Jsonl => summary::json(name, ended, accepted),
        };
        let printed = if is_stopped {
            output::data_within(text, LAST_WORDS)
        } else {
            output::data(text)
        };
        printed.map_err(output::cannot_print)?;
    }
    Ok(())
}

/// The result of a pipeline whose run was asked to stop before it had a store.
fn never_begun(settings: &PipelineSettings) -> (Box<str>, Ended) {
    let ended = Ended {
        fail: settings.layers.fail,
        waived: settings.waived,
        ..Summary::default().into()
    };
    (settings.pipeline.name.clone(), ended)
}

/// The observers of a running pipeline.
struct Watched {
    bars: Bars,
    status: Arc<Status>,
}

async fn run_one(
    settings: PipelineSettings,
    stores: Stores,
    run: Run,
    outage: Policy,
    guard: Option<Guard>,
    watched: Watched,
) -> (Box<str>, Result<Ended>) {
    let name = settings.pipeline.name.clone();
    let ended = consume(settings, stores, run, outage, guard, &watched).await;
    (name, ended)
}

async fn consume(
    settings: PipelineSettings,
    stores: Stores,
    run: Run,
    outage: Policy,
    guard: Option<Guard>,
    Watched { bars, status }: &Watched,
) -> Result<Ended> {
    let PipelineSettings {
        pipeline,
        source,
        effect,
        layers,
        waived,
        dead_letter: _,
    } = settings;
    let around = &run.surroundings;
    let (stores, layer) = Layer::over(&layers.front, stores, &around.clock, &*around.entropy)?;
    if let (Layer::Cache(cache), Front::Cache(Cache { warm, .. })) = (&layer, &layers.front)
        && *warm > 0
    {
        let name = &pipeline.name;
        match cache.warm(Some(&pipeline.scope), *warm).await {
            Ok(kept) => bars.note(&format!("{name}: the cache begins with {kept} records")),
            Err(error) => bars.warning(&format!("{name}: the cache begins empty: {error}")),
        }
    }
    let summary = if let EffectSettings::Streamed(streamed) = effect {
        let (source, stream, seen) = streamed::open(&source, &streamed, &pipeline, around)?;
        status.restores(&pipeline.name, Arc::clone(&seen));
        let mut telling = JoinSet::new();
        let name = pipeline.name.clone();
        telling.spawn(restoring::tell(
            name.clone(),
            Arc::clone(&seen),
            bars.clone(),
        ));
        telling.spawn(hindrance::tell(name, seen, bars.clone()));
        let ends = (Guarded::new(source, guard), stream);
        run_streamed(pipeline, streamed.transform, ends, stores, run, outage).await?
    } else {
        let source = source::open(&source, pipeline.max_message_bytes, pipeline.lease).await?;
        let source = Guarded::new(source, guard);
        run_with(pipeline, effect, source, stores, run, outage).await?
    };
    Ok(Ended {
        summary,
        fail: layers.fail,
        layer: layer.figures(),
        waived,
    })
}

/// Asks for a stop at the first SIGTERM or SIGINT, and exits at once at the second, which is as safe as `kill
/// -9`.
pub(super) fn listen(
    stop: watch::Sender<bool>,
    bars: Bars,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    let handler = |kind| {
        signal(kind).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "cannot listen to signals").with_source(error)
        })
    };
    let (mut terminate, mut interrupt) = (
        handler(SignalKind::terminate())?,
        handler(SignalKind::interrupt())?,
    );
    Ok(async move {
        loop {
            let number = tokio::select! {
                _ = terminate.recv() => SignalKind::terminate().as_raw_value(),
                _ = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            };
            if stop.send_replace(true) {
                std::process::exit(128 + number);
            }
            bars.note("stopping: finishing what is running; once more to leave at once");
        }
    })
}

/// The line that announces a pipeline when it starts.
fn banner(settings: &PipelineSettings, accepted: Accepted, outlook: Outlook) -> String {
    let PipelineSettings {
        pipeline, effect, ..
    } = settings;
    let class = summary::class(effect.class());
    let gate = match outlook {
        Outlook::Judged(judgement) => judgement.gate,
        Outlook::NoBroker | Outlook::Away => Gate::unasked(settings),
    };
    let gate = match gate {
        Gate::Birth => "age gate: on",
        Gate::Appended => "age gate: on, by the broker's time",
        Gate::Off => {
            "age gate: off (no `birth`; a message that comes again after the window counts as new)"
        }
    };
    let mut banner = format!(
        "{}: {class}, window {}, {gate}",
        pipeline.name,
        days(pipeline.window.duration())
    );
    for name in accepted.names().into_iter().chain(settings.waived.names()) {
        banner.extend(["; accepted: ", name]);
    }
    match &settings.layers.front {
        Front::None => {}
        Front::Cache(_) => banner.push_str("; with a cache"),
        Front::Approximate(settings) => {
            let share = (settings.error_rate * 100.0).to_string();
            banner.extend(["; APPROXIMATE: up to ", &share, "% of new keys are lost"]);
        }
    }
    if settings.layers.fail == Fail::Open {
        banner.push_str("; FAILS OPEN: without its store, effects run unprotected");
    }
    banner
}

fn days(duration: Duration) -> String {
    let secs = duration.as_secs();
    match secs {
        0 => format!("{}ms", duration.as_millis()),
        secs if secs.is_multiple_of(86_400) => format!("{}d", secs / 86_400),
        secs if secs.is_multiple_of(3_600) => format!("{}h", secs / 3_600),
        secs if secs.is_multiple_of(60) => format!("{}m", secs / 60),
        secs => format!("{secs}s"),
    }
}

/// The interval of sweeps: records are forgotten at the latest an eighth of their window after it, so a sweep
/// comes round twice in that time, and at least every minute.
fn sweep_every(pipelines: &[PipelineSettings]) -> Duration {
    let shortest = pipelines
        .iter()
        .map(|settings| settings.pipeline.window.duration())
        .min();
    (shortest.unwrap_or_default() / 16).clamp(Duration::from_millis(500), Duration::from_secs(60))
}

/// The time for which a run that was asked to stop waits for the reader of its summary.
const LAST_WORDS: Duration = Duration::from_secs(1);
