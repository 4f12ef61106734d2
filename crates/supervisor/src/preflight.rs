//! Checks and announces a store's promises before effects run on it.

use semel_backends::ingest;
use semel_backends::store::is_exposed;
use semel_config::{Accepted, Front, PipelineSettings, Settings, SourceSettings, StoreUrl};
use semel_core::Result;
use semel_core::port::store::Capabilities;
use semel_engine::effect::{Class, OnDoubt};
use semel_operate::check::durability::{self, Shortfall};
use semel_worker::run::Stores;

use crate::notice::{Notice, Reporter};

/// Reads the store's promises, reports what is worth knowing about them, and refuses a store that cannot keep the
/// promise of a pipeline.
///
/// # Errors
///
/// `Unsupported`, and those of the store.
pub async fn preflight<'a>(
    url: &StoreUrl,
    accepted: Accepted,
    stores: &Stores,
    effects: impl IntoIterator<Item = (&'a str, Class)>,
    report: impl Fn(&Notice<'_>),
) -> Result<()> {
    let capabilities = stores.preflight().await?;
    judge(url, accepted, &capabilities, effects, report)
}

/// Reports messages that others sent for pipelines that this worker does not run: nobody else would tell. They are no
/// reason not to start.
pub(crate) async fn left_over(settings: &Settings, reporter: &dyn Reporter) {
    let url = &settings.store;
    let takes = |name: &str| {
        let mut those = settings.pipelines.iter();
        let is_kept = |it: &PipelineSettings| {
            it.sequence_gate.is_some() || matches!(it.source, SourceSettings::Ingest(_))
        };
        those.any(|it| &*it.pipeline.name == name && is_kept(it))
    };
    let left = match ingest::left_over(url, takes).await {
        Ok(left) => left,
        Err(error) => {
            let warning = &format!(
                "whether others have sent messages for pipelines that this worker does not run is not known: {error}"
            );
            reporter.report(&Notice::StoreWarning { url, warning });
            return;
        }
    };
    for (pipeline, count) in left {
        let warning = &format!(
            "{count} messages that others sent wait for pipeline `{pipeline}`, which takes none in this worker: they run \
             once a pipeline of that name has a source of kind `ingest`, or one with a sequence gate"
        );
        reporter.report(&Notice::StoreWarning { url, warning });
    }
}

/// The same of promises that were read.
///
/// # Errors
///
/// `Unsupported`.
pub(crate) fn judge<'a>(
    url: &StoreUrl,
    accepted: Accepted,
    capabilities: &Capabilities,
    effects: impl IntoIterator<Item = (&'a str, Class)>,
    report: impl Fn(&Notice<'_>),
) -> Result<()> {
    let survives = capabilities.durability;
    for warning in &capabilities.warnings {
        report(&Notice::StoreWarning { url, warning });
    }
    if is_exposed(url) {
        report(&Notice::StoreExposed { url });
    }
    // The operator chose this store by a name of its own, and still gets a loud warning.
    if *url == StoreUrl::Memory {
        return Ok(());
    }
    for (pipeline, class) in effects {
        durability::check(pipeline, class, survives, accepted)?;
        if let Some(Shortfall { is_broken, why }) = durability::shortfall(class, survives) {
            report(&Notice::Durability {
                pipeline,
                is_accepted: is_broken,
                why,
            });
        }
    }
    Ok(())
}

/// The effects of a configuration that depend on the store: those of pipelines, those behind the routes of a gateway, and
/// those of clients of the claim API, which may have the class that asks for the most.
pub fn of_worker(settings: &Settings) -> impl Iterator<Item = (&str, Class)> {
    let claims = settings.serves_claims();
    let claims = claims.then_some(("claims", Class::Unkeyed(OnDoubt::Park)));
    let routes = settings.gateway.iter().flat_map(|it| &it.routes);
    let routes = routes.map(|it| (&*it.route.operation, it.route.class));
    effects(&settings.pipelines).chain(claims).chain(routes)
}

/// The effects of these pipelines that depend on the store. The losses of an approximate pipeline were accepted
/// when its settings were read.
pub fn effects<'a>(
    pipelines: impl IntoIterator<Item = &'a PipelineSettings>,
) -> impl Iterator<Item = (&'a str, Class)> {
    let exact = pipelines
        .into_iter()
        .filter(|settings| !matches!(settings.layers.front, Front::Approximate(_)));
    exact.map(|settings| (&*settings.pipeline.name, settings.effect.class()))
}
