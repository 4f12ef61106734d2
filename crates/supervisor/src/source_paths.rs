//! The paths of sources at the listeners of the gateway and of the admin API.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use semel_backends::webhook::{Entrance, Listeners};
use semel_config::{PipelineSettings, Settings};
use semel_core::{Clock, Code, Error, ErrorKind, Result};
use semel_http::Access;
use semel_proxy::OwnPaths;
use tower::ServiceExt;

use crate::tokens::Known;

/// Refuses a pipeline whose messages would come to a gateway that is not served, since the pipeline runs alone.
///
/// # Errors   `InvalidConfig`
pub(crate) fn check(settings: &Settings) -> Result<()> {
    if settings.gateway.is_some() {
        return Ok(());
    }
    for pipeline in &settings.pipelines {
        let door = pipeline.source.door();
        if door.is_some_and(|it| matches!(it.entrance, Entrance::Gateway(_))) {
            let message = format!(
                "pipelines.{}.source.listen: is `gateway`, which is not served where one pipeline runs alone; run it without \
                 --pipeline, or write an address of its own",
                pipeline.pipeline.name
            );
            let error = Error::new(ErrorKind::InvalidConfig, message);
            return Err(error.with_code(Code::SourceUnavailable));
        }
    }
    Ok(())
}

/// The sources of a worker, some of which have paths at listeners of other parts.
#[derive(Clone, Copy)]
pub(crate) struct SourcesAt<'a> {
    pub(crate) pipelines: &'a [PipelineSettings],
    pub(crate) listeners: &'a Listeners,
}

impl<'a> SourcesAt<'a> {
    /// Returns the paths that the gateway leaves to sources, if there are any; it listens at `listen`, and really at
    /// `address`. Their clients are those of the API: they show a certificate where that asks for one.
    ///
    /// # Errors   `InvalidConfig`: a path is of no use; the configuration has checked them
    pub(crate) fn at_gateway(
        self,
        listen: SocketAddr,
        address: SocketAddr,
    ) -> Option<Result<OwnPaths>> {
        let entrance = Entrance::Gateway(listen);
        let service = self.listeners.router(entrance, address)?;
        let paths = self.paths(entrance).map(str::parse);
        let paths = paths.collect::<std::result::Result<_, _>>();
        let own = paths.map(|paths| OwnPaths {
            paths,
            needs_certificate: true,
            service,
        });
        Some(own.map_err(|error| {
            let message = format!("source.path: {error}");
            Error::new(ErrorKind::InvalidConfig, message)
        }))
    }

    /// Puts the paths of sources at the listener of the admin API, which is really at `address`, before the `rest` of it. The
    /// rules about tokens and hosts are those of the rest, but for cookies: a browser sends no messages.
    pub(crate) fn at_admin(
        self,
        rest: Router,
        address: SocketAddr,
        settings: &Settings,
        (tokens, clock): (Known, &Arc<dyn Clock>),
    ) -> Router {
        let listen = settings.admin.listen.unwrap_or(address);
        let entrance = Entrance::Admin(listen);
        let Some(router) = self.listeners.router(entrance, address) else {
            return rest;
        };
        let hosts = &settings.admin.hosts;
        let clock = Arc::clone(clock);
        let access = Access::new(address, hosts, tokens, semel_admin::MOST_BODY_BYTES, clock);
        let parts = Parts {
            paths: self.paths(entrance).map(Box::from).collect(),
            sources: access.protect_unread(router),
            rest,
        };
        Router::new().fallback(part).with_state(Arc::new(parts))
    }

    /// The paths of the sources that share a listener.
    fn paths(self, entrance: Entrance) -> impl Iterator<Item = &'a str> {
        let doors = self.pipelines.iter().filter_map(|it| it.source.door());
        let here = doors.filter(move |it| it.entrance == entrance);
        here.map(|it| it.path)
    }
}

/// The parts of a listener that has paths of sources, too.
struct Parts {
    paths: Box<[Box<str>]>,
    sources: Router,
    rest: Router,
}

/// Has the part answer whose path it is.
async fn part(State(parts): State<Arc<Parts>>, request: Request) -> Response {
    let path = request.uri().path();
    let is_source = parts.paths.iter().any(|it| **it == *path);
    let router = if is_source {
        &parts.sources
    } else {
        &parts.rest
    };
    let Ok(answer) = router.clone().oneshot(request).await;
    answer
}
