//! Opens the store that the command line names, and runs a verb on it.

use std::pin::Pin;
use std::sync::Arc;

use semel_backends::store::{self, OpenStore};
use semel_config::{Accepted, StoreUrl, suggestion};
use semel_core::{Clock, Error, ErrorKind, Result, Scope};
use semel_engine::system::SystemClock;
use semel_render::run::notices;
use semel_supervisor::Notice;
use tokio::runtime::Runtime;

use super::Ground;
use super::named::{Named, place, typed};
use super::selection::invalid;
use crate::args::Common;
use crate::{Exit, output};

/// The purpose for which a verb opens its store.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Read,
    Change,
    Export,
    Fill,
    Run,
}

impl Purpose {
    /// Returns the part that the worker which has the store open plays, if a verb of this purpose leaves it one.
    const fn part_of_worker(self) -> Option<&'static str> {
        match self {
            Self::Change => Some(" and carries this out"),
            // The effects run here, or are refused: a file is the worker's own.
            Self::Run => Some(""),
            // Refused by an error that names the process, or nothing of the worker's concern.
            Self::Export | Self::Fill | Self::Read => None,
        }
    }
}

/// Opens a store, and tells the operator if that brought it forward: there is no way back.
async fn telling(
    url: &StoreUrl,
    accepted: Accepted,
    clock: Arc<dyn Clock>,
    purpose: Purpose,
) -> Result<OpenStore> {
    let before = store::older_format(url).await;
    let opened = match purpose {
        Purpose::Read => store::open_for_reading(url, clock).await?,
        Purpose::Change | Purpose::Export => store::open_for_changing(url, clock).await?,
        Purpose::Fill => store::open_for_filling(url, clock).await?,
        Purpose::Run => store::open_for_running(url, accepted, clock).await?,
    };
    tell_if_forward(url, before).await?;
    Ok(opened)
}

/// Tells the operator if the store, which had the older format `before`, has another one now.
pub(in crate::command) async fn tell_if_forward(url: &StoreUrl, before: Option<i64>) -> Result<()> {
    if let Some((from, to)) = store::brought_forward(url, before).await? {
        notices::print(&Notice::StoreBroughtForward { url, from, to });
    }
    Ok(())
}

pub(super) fn with(
    common: &Common,
    tenant: Option<&str>,
    purpose: Purpose,
    verb: impl AsyncFnOnce(&Ground) -> Result<Exit>,
) -> Result<Exit> {
    let Some((runtime, ground)) = opened(common, tenant, purpose)? else {
        return Ok(Exit::Usage);
    };
    let done = drive(&runtime, Box::pin(verb(&ground)));
    done.map_err(|error| store::at_store(&ground.url, error))
}

/// Opens the store that the arguments name; nothing after faults were reported.
fn opened(
    common: &Common,
    tenant: Option<&str>,
    purpose: Purpose,
) -> Result<Option<(Runtime, Ground)>> {
    let Some(Named {
        url,
        accepted,
        pipelines,
        patience,
        telemetry,
        serves_clients,
        takes_claims,
        routes,
    }) = place(common)?
    else {
        return Ok(None);
    };
    if let Some(name) = &common.pipeline {
        Scope::new("", name).map_err(invalid)?;
    }
    let clock = Arc::new(SystemClock::new());
    let runtime = runtime()?;
    let opened = runtime.block_on(telling(&url, accepted, clock.clone(), purpose));
    let OpenStore {
        store,
        transfer,
        stores,
        beside,
        worker,
    } = opened.map_err(|error| store::at_store(&url, error))?;
    let ground = Ground {
        url,
        accepted,
        store,
        transfer,
        stores,
        patience,
        telemetry,
        beside,
        worker,
        pipelines,
        serves_clients,
        takes_claims,
        routes,
        named: common.pipeline.as_deref().map(Into::into),
        tenant: tenant.map(Into::into),
        typed: typed(common),
        clock,
    };
    ground.doubt_the_name();
    if let (Some(process), Some(part)) = (worker, purpose.part_of_worker()) {
        output::note(format_args!("process {process} has the store open{part}"));
    }
    Ok(Some((runtime, ground)))
}

/// Runs a verb to its end. The future is boxed, since each type of future would be compiled with a runtime of
/// its own.
pub(super) fn drive(
    runtime: &Runtime,
    verb: Pin<Box<dyn Future<Output = Result<Exit>> + '_>>,
) -> Result<Exit> {
    runtime.block_on(verb)
}

pub(super) fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Unavailable, "cannot start").with_source(error))
}

impl Ground {
    /// Warns that the configuration lacks the named pipeline, which may have left records all the same.
    fn doubt_the_name(&self) {
        let names = self.names();
        if let Some(name) = self.named.as_deref()
            && !names.is_empty()
            && !self.serves_clients
            && !names.contains(&name)
        {
            output::warning(format_args!(
                "the configuration has no pipeline `{name}`; {}",
                suggestion(name, &names)
            ));
        }
    }
}
