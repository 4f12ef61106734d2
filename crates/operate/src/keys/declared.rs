//! The part of a configuration that says where keys come from, and to which pipeline and tenant a typed key belongs.

use semel_config::{PipelineSettings, Settings};
use semel_core::Scope;
use semel_core::port::store::ListQuery;

use super::{Arrival, Places};

/// The pipelines of a configuration, and the clients beside them.
#[derive(Clone, Copy)]
pub struct Declared<'a> {
    /// The pipelines; none where there is no configuration.
    pub pipelines: &'a [PipelineSettings],
    /// True if clients bring keys, too: by claims, or in requests to a gateway.
    pub serves_clients: bool,
    /// The names under which the routes of a gateway keep their keys.
    pub routes: &'a [Box<str>],
}

impl<'a> Declared<'a> {
    /// Returns the settings of the pipeline of `scope`, if the configuration has it.
    pub fn pipeline_of(&self, scope: &Scope) -> Option<&'a PipelineSettings> {
        let mut pipelines = self.pipelines.iter();
        pipelines.find(|settings| settings.pipeline.has(scope))
    }

    /// Returns the way in which keys of `scope` come: through a route of the gateway, if one has that name. What no
    /// pipeline of a configuration with claims has, clients claim.
    pub fn arrival_of(&self, scope: &Scope) -> Arrival {
        if !self.serves_clients || self.pipeline_of(scope).is_some() {
            Arrival::Delivery
        } else if self.routes.iter().any(|it| **it == *scope.operation()) {
            Arrival::Request
        } else {
            Arrival::Claim
        }
    }

    /// Returns the tenant of the keys of a pipeline, if there is only one that can be meant: the named one, or the
    /// empty one of a pipeline that has none.
    pub fn tenant_in<'t>(&self, pipeline: &str, named: Option<&'t str>) -> Option<&'t str> {
        let is_it = |settings: &&PipelineSettings| *settings.pipeline.name == *pipeline;
        let configured = self.pipelines.iter().find(is_it);
        let has_none = configured.is_some_and(|settings| settings.pipeline.tenant.is_none());
        named.or(has_none.then_some(""))
    }

    /// Returns the places in which a typed key is looked for: the pipeline of `within`, else all of the configuration;
    /// none where the key may be that of a client.
    pub fn places(&self, within: ListQuery) -> Places {
        let names = match within.operation.as_deref() {
            Some(name) => vec![name],
            None if self.serves_clients => Vec::new(),
            None => {
                let pipelines = self.pipelines.iter();
                pipelines.map(|it| &*it.pipeline.name).collect()
            }
        };
        let (mut scopes, mut open) = (Vec::new(), Vec::new());
        for name in names {
            let tenant = self.tenant_in(name, within.tenant.as_deref());
            match tenant.map(|tenant| Scope::new(tenant, name)) {
                Some(Ok(scope)) => scopes.push(scope),
                Some(Err(_)) | None => open.push(name.into()),
            }
        }
        Places {
            scopes,
            names: open,
            within,
        }
    }
}

/// Returns the names under which the routes of a gateway keep their keys.
pub fn names_of_routes(settings: &Settings) -> Vec<Box<str>> {
    let routes = settings.gateway.iter().flat_map(|it| &it.routes);
    let names: std::collections::BTreeSet<_> =
        routes.map(|it| it.route.operation.clone()).collect();
    names.into_iter().collect()
}
