//! `semel check`: reports what each pipeline promises, what the promise rests on, and what stands in its way.
//! Changes nothing, a target least of all.

use std::path::Path;
use std::sync::Arc;

use semel_check::{Check as Looks, Means};
use semel_config::Settings;
use semel_core::{Error, ErrorKind, Result};
use semel_engine::system::SystemClock;
use semel_operate::check::{CheckReport, Severity, WindowLine};

use crate::Exit;
use crate::args::{Check, Format, Listing, Output};
use crate::command::config;
use crate::command::operate::usage;
use crate::configuration::load;
use crate::output::{self, Answers, List};

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
    one_reader_of_standard_input(arguments, settings)?;
    let whole = whole(arguments);
    let sample = arguments.sample.as_deref();
    let check = Looks {
        settings,
        // Also those that `--pipeline` leaves out.
        all: &whole.as_ref().unwrap_or(settings).pipelines,
        rate: arguments.rate,
        sample: sample.map(|file| (file, arguments.limit.get())),
        production: arguments.production,
        clock: Arc::new(SystemClock::new()),
        means: Means::default(),
    };
    let mut answers = Answers::new(arguments.format);
    let concluded = check
        .run(&mut |report: CheckReport| answers.print(&report))
        .await?;
    table(&concluded.windows, arguments.format)?;
    exit(concluded.failure, concluded.worst, arguments.strict)
}

/// Returns the exit code of a check that ended like this.
///
/// # Errors
///
/// The failure
pub(super) fn exit(failure: Option<Error>, worst: Severity, is_strict: bool) -> Result<Exit> {
    match (failure, worst) {
        (Some(error), _) => Err(error),
        (None, Severity::Fail) => Ok(Exit::No),
        (None, Severity::Warn) if is_strict => Ok(Exit::No),
        (None, Severity::Ok | Severity::Warn) => Ok(Exit::Done),
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

/// Reads the settings with all pipelines, where the rate of those that `--pipeline` leaves out counts as well.
fn whole(arguments: &Check) -> Option<Settings> {
    let mut overrides = arguments.named.common.overrides();
    let leaves_out = overrides.pipeline.take().is_some() && arguments.rate.is_some();
    let all = leaves_out.then(|| load(arguments.named.file(), &overrides))?;
    all.ok().map(|(_, all)| all)
}

/// Prints the windows of all pipelines that read a broker, for people; programs find them in the reports.
pub(super) fn table(windows: &[WindowLine], format: Format) -> Result<()> {
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
