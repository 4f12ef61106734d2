//! `semel check`: reports what each pipeline promises, what the promise rests on, and what stands in its way.
//! Changes nothing, a target least of all.

mod gateway;
mod services;
mod store_path;

use std::path::Path;
use std::sync::Arc;

use semel_backends::store::Formats;
use semel_backends::{source, store};
use semel_check::{ProductionLook, Targets, certificate, statements};
use semel_config::{PipelineSettings, Settings};
use semel_core::port::transactional::Statements;
use semel_core::{Clock, Code, Error, ErrorKind, Result};
use semel_engine::system::SystemClock;
use semel_operate::check::Inspection;
use semel_operate::check::{Broker, Report, Room, Severity, Standing, Storage, Subject};
use semel_render::reports::check::WindowLine;

use crate::Exit;
use crate::args::{Check, Format, Listing, Output};
use crate::command::config;
use crate::command::operate::usage;
use crate::configuration::load;
use crate::output::{self, Answers, List};
use crate::shell::quoted;

/// Looks at every pipeline; exit code 1 if one of them must not run like this, or with `--strict` should not. With
/// `--production`, if a line of that list fails.
pub(crate) fn check(arguments: &Check) -> Result<Exit> {
    let Some(settings) = config::settings(&arguments.named) else {
        return Ok(Exit::Usage);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Unavailable, "cannot start").with_source(error))?;
    runtime.block_on(check_all(arguments, &settings))
}

async fn check_all(arguments: &Check, settings: &Settings) -> Result<Exit> {
    let asked: Vec<Statements> = settings.pipelines.iter().filter_map(statements).collect();
    let clock = Arc::new(SystemClock::new());
    let now = Arc::clone(&clock);
    let store = inspect(settings, Arc::clone(&clock) as _, &asked).await;
    let room = room(arguments, settings);
    let paused = semel_check::pauses(settings, &store, Arc::clone(&clock) as _).await;
    let before_production = if arguments.production {
        Some(ProductionLook::begin(settings, &store, room, clock).await)
    } else {
        None
    };
    let mut refused = store.iter().flat_map(|looked| &looked.refused);
    let mut answers = Answers::new(arguments.format);
    let mut worst = Severity::Ok;
    let mut away = None;
    let mut windows = Vec::new();
    one_reader_of_standard_input(arguments, settings)?;
    for (pipeline, paused) in settings.pipelines.iter().zip(paused) {
        let sample = match &arguments.sample {
            Some(file) => Some(semel_check::sample(file, pipeline, arguments.limit.get()).await?),
            None => None,
        };
        let refused = statements(pipeline).and_then(|_| refused.next()?.as_ref());
        let targets = Targets::look(pipeline).await;
        let pipeline = &targets.settings;
        if let Some(error) = &targets.away {
            away.get_or_insert_with(|| error.clone());
        }
        let broker = Broker {
            horizons: source::horizons(&pipeline.source, pipeline.pipeline.lease).await,
            at: now.now(),
        };
        if let Err(error) = &broker.horizons
            && source::is_away(error)
        {
            away.get_or_insert_with(|| error.clone());
        }
        let rules = &pipeline.pipeline;
        let fingerprint = &rules.fingerprint;
        let storage = Storage::of(&settings.store, fingerprint, rules.window, arguments.rate);
        let mut found = certificate(pipeline);
        found.extend_from_slice(&targets.findings);
        found.extend(paused);
        let looked = store.as_ref().ok();
        let place = looked.map(|it| store_path::findings(&settings.store, it.is_there, &room));
        let subject = Subject {
            settings,
            pipeline,
            broker: &broker,
            place: &place.unwrap_or_default(),
            targets: &found,
            store: store.as_ref(),
            refused,
            sample: sample.as_ref(),
            storage,
        };
        let report = Report::of(&subject);
        let printed = if let Some(look) = &before_production {
            let list = look.list(&subject, &report).await;
            if list.verdict == Standing::Fail {
                worst = Severity::Fail;
            }
            answers.print(&list)?
        } else {
            worst = worst.max(report.verdict);
            windows.extend(WindowLine::of(&broker, pipeline, report.class));
            answers.print(&report)?
        };
        if printed.is_break() {
            break;
        }
    }
    if before_production.is_none() {
        for report in semel_check::claims(settings, store.as_ref(), &*now) {
            worst = worst.max(report.verdict);
            // Nobody reading is no reason to stop: all of them were looked at.
            let _ = answers.print(&report)?;
        }
    }
    let look = before_production.as_ref();
    worst = worst.max(gateway::look(settings, store.as_ref(), look, &mut answers)?);
    let (of_relays, relay_away) = services::relays(settings, &mut answers).await?;
    let (of_producers, producers_away) = match &store {
        Ok(_) => services::producers(&settings.store, now.now(), &mut answers).await?,
        // That is told first.
        Err(_) => (Severity::Ok, None),
    };
    worst = worst.max(of_relays).max(of_producers);
    let away = away.or(relay_away).or(producers_away);
    table(&windows, arguments.format)?;
    match (store, away, worst) {
        (Err(error), ..) => Err(store::at_store(&settings.store, error)),
        (Ok(_), Some(error), _) => Err(error),
        (Ok(_), None, Severity::Fail) => Ok(Exit::No),
        (Ok(_), None, Severity::Warn) if arguments.strict => Ok(Exit::No),
        (Ok(_), None, Severity::Ok | Severity::Warn) => Ok(Exit::Done),
    }
}

/// Refuses samples of several pipelines from an input that can be read once.
fn one_reader_of_standard_input(arguments: &Check, settings: &Settings) -> Result<()> {
    if arguments.sample.as_deref() == Some(Path::new("-")) && settings.pipelines.len() > 1 {
        return Err(usage(
            "--sample: standard input can be read once; name one pipeline with --pipeline NAME",
        ));
    }
    Ok(())
}

/// Measures the room of the store, and what all of its pipelines need at the given rate: also those that `--pipeline`
/// leaves out.
fn room(arguments: &Check, settings: &Settings) -> Room {
    let mut overrides = arguments.named.common.overrides();
    let leaves_out = overrides.pipeline.take().is_some() && arguments.rate.is_some();
    let all = leaves_out.then(|| load(arguments.named.file(), &overrides));
    let all = all.and_then(Result::ok);
    let all = all.as_ref().map_or(settings, |(_, all)| all);
    let all = &all.pipelines;
    let mut needed = all.iter().map(|PipelineSettings { pipeline, .. }| {
        let fingerprint = &pipeline.fingerprint;
        let storage = Storage::of(
            &settings.store,
            fingerprint,
            pipeline.window,
            arguments.rate,
        );
        storage.disk_bytes()
    });
    Room {
        needed: needed.try_fold(0, |sum: u64, it| Some(sum.saturating_add(it?))),
        pipelines: all.len(),
        disk: store_path::disk(&settings.store, arguments.rate.is_some()),
    }
}

/// Inspects the store, and refuses one that only another version can use, or that must be migrated first.
///
/// # Errors   `store-newer`; `store-unavailable` with the command; those of the store
async fn inspect(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    statements: &[Statements],
) -> Result<Inspection> {
    let url = &settings.store;
    let inspected = store::inspect(url, settings.accepted, clock, statements).await?;
    let refused = |message| Error::new(ErrorKind::Unavailable, message).not_applied();
    match inspected.formats {
        Some(Formats {
            stored: Some(stored),
            newest,
        }) if stored > newest => Err(refused(format!(
            "the store has format {stored}, and this version knows {newest}; use a newer version"
        ))
        .with_code(Code::StoreNewer)),
        Some(Formats {
            stored: Some(stored),
            newest,
        }) if stored < newest => Err(refused(format!(
            "the store has format {stored}, and this version works with {newest}; bring it forward: semel store \
             migrate --store {}",
            quoted(&url.to_string())
        ))),
        Some(_) | None => Ok(inspected.inspection),
    }
}

/// Prints the windows of all pipelines that read a broker, for people; programs find them in the reports.
fn table(windows: &[WindowLine], format: Format) -> Result<()> {
    if windows.is_empty() || format.output != Output::Table {
        return Ok(());
    }
    output::data("").map_err(output::cannot_print)?;
    let mut list = List::new(&Listing {
        format,
        limit: None,
    });
    for window in windows {
        if list.push(window)?.is_break() {
            break;
        }
    }
    list.end()
}
