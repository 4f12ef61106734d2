//! The part of a store that a verb is about: `--pipeline` and `--tenant`, and what they leave open.

use std::collections::BTreeSet;

use semel_config::PipelineSettings;
use semel_core::key::InvalidScope;
use semel_core::port::store::ListQuery;
use semel_core::{Error, Key, Operation, Result, Scope};
use semel_operate::keys::{Places, in_list};
use semel_render::names::several;

use super::{Ground, usage};
use crate::output::Plan;
use crate::shell::quoted;

impl Ground {
    /// The selection of `--pipeline` and `--tenant`, for verbs that go over everything without them.
    pub(crate) fn selection(&self) -> ListQuery {
        ListQuery {
            tenant: self.tenant.clone(),
            operation: self.named.clone(),
            ..ListQuery::default()
        }
    }

    /// The selection of one pipeline: `--pipeline`, else the only one of the configuration. Of all its tenants
    /// without `--tenant`, if it has any.
    ///
    /// # Errors   `InvalidInput`: there is no pipeline, or more than one, to choose from
    pub(crate) fn one_pipeline(&self) -> Result<ListQuery> {
        let name = self.pipeline_name()?;
        Ok(ListQuery {
            tenant: self.tenant_in(name).map(Into::into),
            operation: Some(name.into()),
            ..ListQuery::default()
        })
    }

    /// The name of the pipeline of a KEY: `--pipeline`, else the only one of the configuration.
    ///
    /// # Errors   as [`Ground::one_pipeline`]
    pub(crate) fn pipeline_name(&self) -> Result<&str> {
        match (&self.named, &self.pipelines[..]) {
            (Some(name), _) => Ok(name),
            (None, [only]) if !self.serves_clients => Ok(&only.pipeline.name),
            (None, []) => match &self.routes[..] {
                [only] if !self.takes_claims => Ok(only),
                _ if self.takes_claims || self.routes.is_empty() => Err(usage(
                    "which pipeline, or operation of a claim? name it with --pipeline NAME",
                )),
                routes => Err(usage(format!(
                    "which operation of a route? name it with --pipeline NAME: {}",
                    routes.join(", ")
                ))),
            },
            (None, _) => Err(usage(format!(
                "which pipeline? name it with --pipeline NAME: {}",
                self.names().join(", ")
            ))),
        }
    }

    /// Makes the operations of these keys of one pipeline: of the tenant that is named or has the key. A key that
    /// nobody has is one of the empty tenant.
    ///
    /// # Cost     goes through the records of the pipeline if it may have tenants and none is named
    /// # Errors   as [`Ground::one_pipeline`]; `InvalidInput`: several tenants have a key, and none is named
    pub(crate) async fn operations(&self, keys: Vec<Key>) -> Result<Vec<Operation>> {
        let within = self.one_pipeline()?;
        let name = within.operation.as_deref().unwrap_or_default();
        let tenant = within.tenant.as_deref();
        let scope = Scope::new(tenant.unwrap_or_default(), name).map_err(invalid)?;
        if tenant.is_some() {
            let operation = |key| Operation::new(scope.clone(), key);
            return Ok(keys.into_iter().map(operation).collect());
        }
        let found = in_list(&self.store, within, &keys).await?;
        let operations = keys.into_iter().zip(found).map(|(key, mut known)| {
            if known.len() > 1 {
                return Err(several(&key, &known));
            }
            let known = known.pop().map(|(operation, _)| operation);
            Ok(known.unwrap_or_else(|| Operation::new(scope.clone(), key)))
        });
        operations.collect()
    }

    /// Selects what is on record of the pipeline of `scope`, if it is not known which of its tenants is meant.
    pub(crate) fn open_tenants(&self, scope: &Scope) -> Option<ListQuery> {
        let is_open = self.tenant_in(scope.operation()).is_none();
        is_open.then(|| ListQuery {
            operation: Some(scope.operation().into()),
            ..ListQuery::default()
        })
    }

    /// The places in which a KEY is looked for: the named pipeline, else all of the configuration. None if it may be that
    /// of a claim.
    pub(super) fn places(&self) -> Places {
        self.declared().places(self.selection())
    }

    /// The tenant of the keys of a pipeline, if there is only one that can be meant: `--tenant`, or the empty one of
    /// a pipeline that has none.
    fn tenant_in(&self, name: &str) -> Option<&str> {
        self.declared().tenant_in(name, self.tenant.as_deref())
    }

    /// Binds a plan to the tenants whose keys it is about, where the operator named keys and no tenant: by the time it
    /// is carried out, another tenant may have such a key.
    pub(crate) fn bind_tenants(&self, plan: &mut Plan, scopes: &BTreeSet<Scope>) {
        if self.tenant.is_some() {
            return;
        }
        let is_open = |scope: &&Scope| self.tenant_in(scope.operation()).is_none();
        let tenants = scopes.iter().filter(is_open).map(Scope::tenant);
        plan.bind(tenants.map(str::to_owned).collect());
    }

    /// The options that name the pipeline and the tenant of a scope, as far as a command needs them.
    pub(super) fn place_options(&self, scope: &Scope) -> String {
        let is_only = !self.serves_clients
            && matches!(&self.pipelines[..], [only] if only.pipeline.has(scope));
        let mut options = String::new();
        if !is_only || self.named.is_some() {
            options += &pipeline_option(scope.operation());
        }
        let has_tenants = |settings: &PipelineSettings| settings.pipeline.tenant.is_some();
        let may_be_others = self.pipeline_of(scope).is_some_and(has_tenants);
        if !scope.tenant().is_empty() || may_be_others {
            options += &tenant_option(scope.tenant());
        }
        options
    }

    /// The options that the operator named pipeline and tenant with.
    pub(super) fn named_options(&self) -> String {
        let pipeline = self.named.as_deref().map(pipeline_option);
        let tenant = self.tenant.as_deref().map(tenant_option);
        pipeline.unwrap_or_default() + &tenant.unwrap_or_default()
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        let names = self.pipelines.iter();
        names.map(|settings| &*settings.pipeline.name).collect()
    }
}

/// The error of a pipeline or a tenant that has no name.
pub(super) fn invalid(error: InvalidScope) -> Error {
    usage(format!("--pipeline: {error}"))
}

pub(crate) fn pipeline_option(name: &str) -> String {
    format!(" --pipeline {}", quoted(name))
}

pub(crate) fn tenant_option(name: &str) -> String {
    format!(" --tenant {}", quoted(name))
}
