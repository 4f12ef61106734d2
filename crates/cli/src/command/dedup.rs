//! `semel dedup`: the first line of each key, in order, durably.

mod ends;
mod ephemeral;
mod format;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use semel_backends::store;
use semel_config::{Accepted, Fault, Overrides, StoreUrl};
use semel_core::{Claimant, Clock, Error, ErrorKind, Result, Scope, Window};
use semel_engine::effect::{Class, OnDoubt};
use semel_engine::summary::{Fate, Summary};
use semel_engine::surroundings::{Shutdown, Surroundings};
use semel_engine::sweep::{self, sweep_until};
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_render::run::notices;
use semel_supervisor::event_log::Verbosity;
use semel_supervisor::{StoreWatch, preflight};
use semel_worker::dedup::{Dedup, Input};
use semel_worker::run::Run;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::{self, LogFormat};
use crate::command::run::listen;
use crate::configuration::{load, store_of_environment, store_url};
use crate::progress::Bars;
use crate::{Exit, output};

use self::ends::{SummaryFile, Target};
use self::ephemeral::ephemeral;
use self::format::{format, without_keys};

/// Prints or appends the first line of each key.
pub(crate) fn dedup(arguments: &args::Dedup) -> Result<Exit> {
    let usage = |message: String| Error::new(ErrorKind::InvalidInput, message);
    let format = format(arguments)?;
    let open = || match arguments.input.as_deref() {
        None => Input::stdin(),
        Some(path) if path == Path::new("-") => Input::stdin(),
        Some(path) => Input::open(path),
    };
    if arguments.is_ephemeral() {
        let mut input = open()?;
        let target = Target::of(arguments, &input)?;
        let summary = SummaryFile::of(arguments.summary.as_deref(), &input, &target)?;
        let key = format::key(arguments, &format, &mut input)?;
        return ephemeral(arguments, &format, key, input, target, summary);
    }
    let store = match store(arguments)? {
        Ok(store) => store,
        Err(faults) => {
            output::errors(faults);
            return Ok(Exit::Usage);
        }
    };
    let scope = Scope::new("", &arguments.pipeline);
    let scope = scope.map_err(|error| usage(format!("--pipeline: {error}")))?;
    let mut input = open()?;
    let target = Target::of(arguments, &input)?;
    if !store.0.keeps_marks() && target.class() != Class::Unkeyed(OnDoubt::Park) {
        let message = "--store: Redis cannot write what was printed together with its records; print \
                       with --on-doubt park, or use `embedded:`, `sqlite:`, `postgres:` or `mysql:`";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let summary = SummaryFile::of(arguments.summary.as_deref(), &input, &target)?;
    let dedup = Dedup {
        name: arguments.pipeline.as_str().into(),
        scope,
        key: format::key(arguments, &format, &mut input)?,
        format,
        window: arguments.window.map_or(Window::DEFAULT, Window::new),
        max_line_bytes: Dedup::MAX_LINE_BYTES,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Unavailable, "cannot start").with_source(error))?;
    let result = runtime.block_on(run(arguments, dedup, input, target, store, summary));
    // A read of standard input cannot be cancelled; it must not delay the exit.
    runtime.shutdown_background();
    result
}

async fn run(
    arguments: &args::Dedup,
    dedup: Dedup,
    input: Input,
    target: Target,
    (url, accepted): (StoreUrl, Accepted),
    summary_file: Option<SummaryFile>,
) -> Result<Exit> {
    let clock = Arc::new(SystemClock::new());
    let stores = store::open(&url, accepted, clock.clone()).await;
    let stores = stores.map_err(|error| store::at_store(&url, error))?;
    let store_watch = StoreWatch::of(&url);
    let effect = [(&*dedup.name, target.class())];
    preflight::preflight(&url, accepted, &stores, effect, notices::print).await?;
    let bars = if target.is_stdout() {
        Bars::beside_data()
    } else {
        Bars::new()
    };
    let log = bars.event_log(LogFormat::Text, Verbosity::Attention);
    let (stop, stopped) = watch::channel(false);
    let mut beside = JoinSet::new();
    beside.spawn(listen(stop.clone(), bars.clone())?);
    beside.spawn(store_watch.clone().watch(stop.clone()));
    beside.spawn(sweep_until(
        stores.store.clone(),
        sweep::interval(dedup.window.duration()),
        Shutdown::new(stopped, PATIENCE),
        log.clone(),
    ));
    let (name, format) = (dedup.name.clone(), dedup.format.clone());
    let run = Run {
        surroundings: Surroundings {
            clock: clock as Arc<dyn Clock>,
            entropy: Arc::new(SystemEntropy),
            claimant: Claimant::random(&SystemEntropy),
            observer: log,
        },
        stop,
        patience: PATIENCE,
        recalled: None,
        on_progress: Some(bars.of(&name)),
        dead_letters: None,
    };
    let result = dedup.run(input, target.open()?, stores, run).await;
    beside.shutdown().await;
    bars.clear();
    let summary = result?;
    tell(&name, &summary, &url);
    if let Some(file) = summary_file {
        file.write(&semel_render::run::summary::json(
            &name,
            &summary.into(),
            accepted,
        ))?;
    }
    store_watch.check()?;
    Ok(match without_keys(arguments, &format, &summary) {
        Some(message) => {
            output::error(message);
            Exit::No
        }
        None => Exit::Done,
    })
}

/// The store that the arguments name, else that of a named configuration or variable, else the default.
fn store(arguments: &args::Dedup) -> Result<Result<(StoreUrl, Accepted), Vec<Fault>>> {
    let typed = |text: &String| {
        let named = store_url(text);
        named.map_err(|why| {
            let message = format!("--store: {why}");
            Error::new(ErrorKind::InvalidInput, message)
        })
    };
    let typed = arguments.store.as_ref().map(typed).transpose()?;
    let accepted = arguments.accept.iter().copied();
    let accepted = accepted.fold(Accepted::default(), Accepted::and);
    let found = match (typed, &arguments.config) {
        (Some(url), _) => Ok((url, Accepted::default())),
        (None, Some(file)) => {
            let read = load(Some(file), &Overrides::default());
            read.map(|(_, settings)| (settings.store, settings.accepted))
        }
        (None, None) => store_of_environment().map(|named| {
            let default = StoreUrl::Embedded(DEFAULT_STORE.into());
            named.unwrap_or((default, Accepted::default()))
        }),
    };
    Ok(found.map(|(url, configured)| (url, configured.and(accepted))))
}

/// Tells the operator about lines that want attention.
fn tell(name: &str, summary: &Summary, url: &StoreUrl) {
    let tell = |fate, what: &str, verb: &str| {
        let count = summary.of(fate);
        // A store that forgets has nothing to show.
        if count > 0 && *url != StoreUrl::Memory {
            let noun = if count == 1 { "line" } else { "lines" };
            output::note(format_args!(
                "{name}: {count} {noun} {what}; look at them with: semel {verb} list --store {url}"
            ));
        }
    };
    tell(Fate::Quarantined, "without a usable key", "quarantine");
    tell(Fate::InDoubt, "in doubt, not printed", "in-doubt");
    tell(Fate::Dead, "whose key was given up", "dead-letters");
}

/// The time that a reader has for the last batch after a stop was asked for.
const PATIENCE: Duration = Duration::from_secs(5);
const DEFAULT_STORE: &str = "./.semel-dedup";
