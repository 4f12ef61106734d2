//! Checks and announces a store's promises before effects run on it.

use semel_config::{Accepted, Front, PipelineSettings, StoreUrl};
use semel_core::Result;
use semel_core::port::store::Capabilities;
use semel_engine::effect::Class;
use semel_operate::check::durability::{self, Shortfall};
use semel_worker::run::Stores;

use crate::{output, place};

/// Reads the store's promises, tells the operator what is worth knowing about them, and refuses a store that
/// cannot keep the promise of a pipeline.
///
/// # Errors   `Unsupported`, and those of the store
pub(crate) async fn preflight<'a>(
    url: &StoreUrl,
    accepted: Accepted,
    stores: &Stores,
    effects: impl IntoIterator<Item = (&'a str, Class)>,
) -> Result<()> {
    let Capabilities {
        durability: survives,
        warnings,
        ..
    } = stores.preflight().await?;
    for warning in warnings {
        output::warning(format_args!("store {url}: {warning}"));
    }
    if let (Some(exposed), Some(hide)) = (place::exposed(url), place::hide(url)) {
        output::warning(format_args!(
            "store {url}: {exposed}; take the right away: {hide}"
        ));
    }
    // The operator chose this store by a name of its own, and still gets a loud warning.
    if *url == StoreUrl::Memory {
        return Ok(());
    }
    for (name, class) in effects {
        durability::check(name, class, survives, accepted)?;
        match durability::shortfall(class, survives) {
            Some(Shortfall {
                is_broken: true,
                why,
            }) => output::warning(format_args!("{name}: accepted by `store.accept`: {why}")),
            Some(Shortfall { why, .. }) => output::warning(format_args!("{name}: {why}")),
            None => {}
        }
    }
    Ok(())
}

/// The effects of these pipelines that depend on the store. The losses of an approximate pipeline were accepted
/// when its settings were read.
pub(crate) fn effects<'a>(
    pipelines: impl IntoIterator<Item = &'a PipelineSettings>,
) -> impl Iterator<Item = (&'a str, Class)> {
    let exact = pipelines
        .into_iter()
        .filter(|settings| !matches!(settings.layers.front, Front::Approximate(_)));
    exact.map(|settings| (&*settings.pipeline.name, settings.effect.class()))
}
