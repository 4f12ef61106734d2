//! `semel run`: runs every pipeline of a configuration, until its sources end or a signal asks to stop.

use std::sync::Arc;
use std::time::Duration;

use semel_config::{Accepted, Settings};
use semel_core::{Error, ErrorKind, Result};
use semel_engine::summary::Fate;
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_http::Sockets;
use semel_render::run::{Console, summary};
use semel_supervisor::event_log::EventLog;
use semel_supervisor::{Opened, Options, PipelineSummary, Results, Supervisor, same_file};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::{self, FailOn, Output};
use crate::configuration::load;
use crate::progress::Bars;
use crate::{Exit, output, sockets};

/// Runs the configuration and prints the summary.
pub(crate) fn run(arguments: &args::Run) -> Result<Exit> {
    output::set_log(arguments.log.format);
    // Before any thread begins, since that changes the environment.
    let sockets = sockets::handed_over()?;
    let file = arguments.file.as_deref();
    let file = file.or(arguments.common.config.as_deref());
    let read = load(file, &arguments.common.overrides());
    let settings = match read {
        Ok((_, settings)) => settings,
        Err(faults) => {
            output::errors(faults);
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
    let result = runtime.block_on(run_all(settings, arguments, sockets));
    // A read of standard input cannot be cancelled; it must not delay the exit.
    runtime.shutdown_background();
    result
}

async fn run_all(settings: Settings, arguments: &args::Run, sockets: Sockets) -> Result<Exit> {
    let format = arguments.format.output;
    let accepted = settings.accepted;
    let bars = Bars::new();
    let log = bars.event_log(arguments.log.format, arguments.log.level);
    let stop = watch::channel(false).0;
    // A server may be slow to answer, and a stop can be asked for while the run waits.
    let is_early = settings.store.is_server();
    let options = Options {
        settings,
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        observer: log.clone(),
        reporter: Arc::new(Console::new(bars.clone(), log.clone())),
        stop: stop.clone(),
    };
    let supervisor = Supervisor::with_sockets(options, sockets).await?;
    let mut signals = JoinSet::new();
    if is_early {
        signals.spawn(listen(stop.clone(), bars.clone())?);
    }
    let worker = match supervisor.open().await? {
        Opened::Worker(worker) => worker,
        Opened::Stopped(results) => {
            return print(results.pipelines, accepted, format, &log, true).map(|()| Exit::Done);
        }
    };
    if !is_early {
        signals.spawn(listen(stop.clone(), bars.clone())?);
    }
    let Results {
        pipelines,
        relays,
        failure,
    } = worker.run().await?;
    signals.shutdown().await;
    bars.clear();
    let exit = judged(&pipelines, &arguments.fail_on, &bars);
    let is_stopped = *stop.borrow();
    print(pipelines, accepted, format, &log, is_stopped)?;
    print_relays(relays, format, is_stopped)?;
    failure.map_or(Ok(exit), Err)
}

/// Checks whether a run set aside messages that `fail_on` forbids, and says so.
fn judged(summaries: &[(Box<str>, PipelineSummary)], fail_on: &[FailOn], bars: &Bars) -> Exit {
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

/// Prints the result of each pipeline, by name.
fn print(
    mut summaries: Vec<(Box<str>, PipelineSummary)>,
    accepted: Accepted,
    format: Output,
    log: &EventLog,
    is_stopped: bool,
) -> Result<()> {
    log.close();
    summaries.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, ended) in &summaries {
        let text = match format {
            Output::Table => summary::table(name, ended, accepted, log),
            Output::Json | Output::Jsonl => summary::json(name, ended, accepted),
        };
        print_text(text, is_stopped)?;
    }
    Ok(())
}

/// Prints the result of each relay, by name.
fn print_relays(
    mut relays: Vec<(Box<str>, semel_outbox::Summary)>,
    format: Output,
    is_stopped: bool,
) -> Result<()> {
    relays.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, ended) in &relays {
        let text = match format {
            Output::Table => summary::relay_table(name, ended),
            Output::Json | Output::Jsonl => summary::relay_json(name, ended),
        };
        print_text(text, is_stopped)?;
    }
    Ok(())
}

fn print_text(text: String, is_stopped: bool) -> Result<()> {
    let printed = if is_stopped {
        output::data_within(text, LAST_WORDS)
    } else {
        output::data(text)
    };
    printed.map_err(output::cannot_print)
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

/// The time for which a run that was asked to stop waits for the reader of its summary.
const LAST_WORDS: Duration = Duration::from_secs(1);
