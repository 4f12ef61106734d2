//! `semel gameday`: plays a drill on scratch data, and reports whether the day ended as promised.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use semel_backends::source;
use semel_config::{Overrides, PipelineSettings, StoreUrl};
use semel_core::port::horizon::Horizon;
use semel_core::{Clock, Code, Error, ErrorKind, Result};
use semel_engine::effect::{Class, OnDoubt};
use semel_engine::pipeline::Fail;
use semel_engine::system::SystemClock;
use semel_gameday::{Alerts, Commands, Drill, Setup, Subject, mend, play};
use semel_operate::check::window::{Gate, Terms};
use semel_render::reports::gameday::DrillReport;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use crate::Exit;
use crate::args::Gameday;
use crate::command::operate::usage;
use crate::configuration::{load, store_url};
use crate::output::{self, Answers};

/// Plays the drill; exit code 1 if something did not hold, or nobody would have been told.
pub(crate) fn gameday(arguments: &Gameday) -> Result<Exit> {
    let alerts = alerts(arguments.alerts.as_deref())?;
    let store = arguments.store.as_deref().map(store).transpose()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Unavailable, "cannot start").with_source(error))?;
    let subject = match &arguments.config {
        None => Subject::default(),
        Some(file) => {
            let Some(settings) = pipeline(file, arguments)? else {
                return Ok(Exit::Usage);
            };
            runtime.block_on(subject(arguments.drill, &settings, &*clock))?
        }
    };
    let mut dir = Dir::of(arguments.dir.as_deref())?;
    let setup = Setup {
        program: std::env::current_exe().map_err(|error| {
            Error::new(ErrorKind::Unavailable, "cannot find this program").with_source(error)
        })?,
        dir: dir.path.clone(),
        store,
        commands: commands(arguments),
        subject,
        alerts,
        clock,
    };
    let played = runtime.block_on(async {
        tokio::select! {
            played = play(arguments.drill, &setup) => Some(played),
            () = stopped() => None,
        }
    });
    let mut report = match played {
        Some(Ok(report)) => report,
        Some(Err(error)) if error.kind() == ErrorKind::InvalidInput => return Err(error),
        Some(Err(error)) => {
            runtime.block_on(mended(&setup));
            dir.keep();
            return Err(error);
        }
        None => {
            runtime.block_on(mended(&setup));
            let stopped = Error::new(ErrorKind::Unavailable, "the drill was stopped");
            return Err(stopped.with_code(Code::DrillFailed).not_applied());
        }
    };
    let passed = report.passed;
    report.dir = (!passed || dir.is_kept()).then(|| dir.path.clone());
    let _ = Answers::new(arguments.format).print(&DrillReport(report))?;
    if !passed {
        dir.keep();
    }
    Ok(if passed { Exit::Done } else { Exit::No })
}

/// Waits until somebody asks for a stop.
async fn stopped() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => _ = signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

/// Mends the store of a drill that did not come to its end, and says so if that fails.
async fn mended(setup: &Setup) {
    if let Err(error) = mend(setup).await {
        output::failure(&error);
        output::warning("the store may still be broken");
    }
}

/// Reads the url of the store of drills; one of this machine is meant from the current folder.
fn store(text: &str) -> Result<String> {
    let url = store_url(text).map_err(|why| usage(format!("--store: {why}")))?;
    if matches!(url, StoreUrl::Memory) {
        return Err(usage(
            "--store: a worker's memory ends with it, and a drill starts several workers; name another store",
        ));
    }
    Ok(match url.path() {
        Some(_) => url.absolute().to_string(),
        None => text.to_owned(),
    })
}

fn commands(arguments: &Gameday) -> Option<Commands> {
    // Either requires the other.
    Some(Commands {
        break_store: arguments.break_store.clone()?,
        mend_store: arguments.mend_store.clone()?,
    })
}

fn alerts(file: Option<&Path>) -> Result<Alerts> {
    let Some(file) = file else {
        return Alerts::shipped();
    };
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| {
        let message = format!("--alerts: cannot read {name}: {error}");
        Error::new(ErrorKind::InvalidInput, message)
    })?;
    Alerts::of(&name, &text)
}

/// The pipeline whose settings are tried; none once the faults of the configuration are printed.
fn pipeline(file: &Path, arguments: &Gameday) -> Result<Option<PipelineSettings>> {
    let overrides = Overrides {
        store: None,
        pipeline: arguments.pipeline.clone(),
    };
    let mut pipelines = match load(Some(file), &overrides) {
        Ok((_, settings)) => settings.pipelines,
        Err(faults) => {
            output::errors(faults);
            return Ok(None);
        }
    };
    if pipelines.len() > 1 {
        return Err(usage(
            "the configuration has several pipelines; name one with --pipeline NAME",
        ));
    }
    Ok(pipelines.pop())
}

/// Takes what a drill can try out of the settings; for the drill of the window, asks the broker for how long a message
/// can come again.
async fn subject(drill: Drill, settings: &PipelineSettings, clock: &dyn Clock) -> Result<Subject> {
    let rules = &settings.pipeline;
    let horizons = if drill == Drill::Ttl {
        source::horizons(&settings.source, rules.lease).await?
    } else {
        None
    };
    let judged = horizons.map(|it| Terms::of(settings).judge(&it, clock.now()));
    let needed = judged.map_or(Horizon::Unknown, |it| it.needed);
    let gate = judged.map_or_else(|| Gate::unasked(settings), |it| it.gate);
    Ok(Subject {
        pipeline: rules.name.to_string(),
        window: rules.window.duration(),
        needed,
        is_gated: gate != Gate::Off,
        fails_open: settings.layers.fail == Fail::Open,
        repeats: settings.effect.class() == Class::Unkeyed(OnDoubt::Repeat),
        attempts: rules.limits.failed.get(),
    })
}

/// The folder of a drill.
struct Dir {
    path: PathBuf,
    /// A folder that goes with the drill.
    scratch: Option<TempDir>,
}

impl Dir {
    fn of(named: Option<&Path>) -> Result<Self> {
        let cannot = |path: &Path, error| {
            let message = format!("cannot write into {}", path.display());
            Error::new(ErrorKind::Unavailable, message).with_source(error)
        };
        let Some(path) = named else {
            let scratch = tempfile::Builder::new()
                .prefix("semel-gameday-")
                .permissions(Permissions::from_mode(0o700))
                .tempdir()
                .map_err(|error| cannot(&std::env::temp_dir(), error))?;
            return Ok(Self {
                path: scratch.path().to_owned(),
                scratch: Some(scratch),
            });
        };
        if path.exists() && !path.is_dir() {
            return Err(usage(format!("--dir: {} is no folder", path.display())));
        }
        std::fs::create_dir_all(path).map_err(|error| cannot(path, error))?;
        let path = path.canonicalize().map_err(|error| cannot(path, error))?;
        match std::fs::read_dir(&path).map(|mut it| it.next().is_none()) {
            Ok(true) => Ok(Self {
                path,
                scratch: None,
            }),
            Ok(false) => Err(usage(format!(
                "--dir: {} is not empty; a drill begins in an empty folder",
                path.display()
            ))),
            Err(error) => Err(cannot(&path, error)),
        }
    }

    const fn is_kept(&self) -> bool {
        self.scratch.is_none()
    }

    /// Leaves the folder behind, and says where it is.
    fn keep(&mut self) {
        if let Some(scratch) = self.scratch.take() {
            let path = scratch.keep();
            output::note(format!("what the drill wrote is in {}", path.display()));
        }
    }
}
