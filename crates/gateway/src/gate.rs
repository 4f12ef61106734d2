//! The state of a layer, which all its requests share.

use std::sync::Arc;

use axum::http::{Extensions, HeaderName, request};
use semel_core::{ByteString, Result, Store};
use semel_engine::effect::TraceHeaders;
use semel_engine::event::Observer;
use semel_engine::once::{Declared, Error, Once, Op};
use semel_http::Tenant;

use crate::counts::Counters;
use crate::inbox::{Inboxes, Ticket};
use crate::route::Route;
use crate::waiters::Waiters;

/// The header in which a handler is told the id of its operation.
pub const OPERATION_ID_HEADER: HeaderName = HeaderName::from_static("semel-operation-id");

pub(crate) struct Gate<S> {
    pub(crate) route: Arc<Route>,
    pub(crate) waiters: Waiters,
    pub(crate) counters: Counters,
    pub(crate) observer: Arc<dyn Observer>,
    declared: Declared<S>,
    inboxes: Option<Inboxes>,
}

impl<S: Store + Clone> Gate<S> {
    pub(crate) fn new(once: &Once<S>, mut route: Route, inboxes: Option<Inboxes>) -> Result<Self> {
        route.check()?;
        if route.shadow {
            route.operation = format!("{}.shadow", route.operation).into();
        }
        let mut declared = route.declared(once);
        if inboxes.is_some() {
            declared = declared.transactional();
        }
        // Any key will do: the name and the settings are checked with it.
        if let Err(Error::Invalid { source }) = declared.operation("key") {
            return Err(source);
        }
        Ok(Self {
            route: Arc::new(route),
            waiters: Waiters::default(),
            counters: Counters::default(),
            observer: Arc::clone(&once.surroundings().observer),
            declared,
            inboxes,
        })
    }

    /// Tells whether handlers find an inbox among the extensions of a request.
    pub(crate) const fn hands_inboxes(&self) -> bool {
        self.inboxes.is_some()
    }

    /// Puts an inbox among the extensions of a request, if handlers find one there.
    pub(crate) fn hand_inbox(&self, op: &Op, extensions: &mut Extensions) -> Option<Ticket> {
        let inboxes = self.inboxes.as_ref()?;
        let window = self.declared.settings().window;
        let ticket = Ticket::new(op.clone(), Arc::clone(&self.route), window);
        inboxes.hand(ticket.clone(), extensions);
        Some(ticket)
    }

    /// Returns the operation of one request, bound to `document`.
    pub(crate) fn declared(
        &self,
        head: &request::Parts,
        tenant: Option<&Tenant>,
        document: &[u8],
    ) -> Declared<S> {
        let declared = self.declared.clone().request_bytes(document);
        let declared = declared.trace(trace_of(head));
        match tenant {
            Some(tenant) => declared.tenant(tenant.as_str()),
            None => declared,
        }
    }
}

/// The trace that a request came with.
fn trace_of(head: &request::Parts) -> Option<TraceHeaders> {
    let text = |name| head.headers.get(name)?.to_str().ok().map(ByteString::from);
    Some(TraceHeaders {
        parent: text("traceparent")?,
        state: text("tracestate"),
    })
}
