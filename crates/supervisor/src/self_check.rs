//! The check of a worker by itself, for its admin API: what `semel check` looks at, with what the worker has open.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use semel_admin::{CheckQuestion, Checker, PendingCheck};
use semel_check::{Check, Means, Patience};
use semel_config::Settings;
use semel_core::{AnyStore, Clock, Code, Error, ErrorKind};
use semel_operate::check::{CheckAnswer, CheckFailure, Scrape};
use semel_telemetry::Format;

use crate::status::Status;

/// Checks the settings of a worker, as they were written.
pub(crate) struct SelfCheck {
    settings: Arc<Settings>,
    status: Arc<Status>,
    /// The address of the listener of the status, with its port.
    address: SocketAddr,
    clock: Arc<dyn Clock>,
    /// Has another owner as long as something of an earlier check goes on.
    unfinished: Arc<()>,
}

impl SelfCheck {
    pub(crate) fn new(
        settings: &Settings,
        status: &Arc<Status>,
        address: SocketAddr,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        Self {
            settings: Arc::new(settings.clone()),
            status: Arc::clone(status),
            address,
            clock: Arc::clone(clock),
            unfinished: Arc::default(),
        }
    }

    /// Returns what is at hand for a look at these settings.
    fn means(&self, store: Option<AnyStore>) -> Means {
        // Nobody on this machine trusts the certificate of a listener that encrypts, and the check says so.
        let is_open = self.settings.admin.tls.is_none();
        let metrics = || self.status.metrics().text(Format::Prometheus);
        Means {
            // With relays alone, the worker does not open the store of its settings.
            store: store.filter(|_| !self.settings.has_relays_alone()),
            scrape: is_open.then(|| Scrape::Answered(self.address, metrics())),
            patience: Patience::new(PATIENCE, WHOLE),
            most_producers: Some(MOST_PRODUCERS),
            at_once: AT_ONCE,
            unfinished: Arc::clone(&self.unfinished),
        }
    }
}

impl Checker for SelfCheck {
    fn check(&self, question: CheckQuestion, store: Option<AnyStore>) -> PendingCheck {
        let CheckQuestion {
            pipeline,
            rate,
            production,
        } = question;
        let (all, clock) = (Arc::clone(&self.settings), Arc::clone(&self.clock));
        let is_own = !all.store.is_server() && !all.has_relays_alone();
        if store.is_none() && is_own {
            let message = "the store is not open yet; /v1/status says what the worker waits for";
            let error = Error::new(ErrorKind::Unavailable, message).not_applied();
            return Box::pin(async move { Err(error) });
        }
        if Arc::strong_count(&self.unfinished) > 1 {
            let message = "what an earlier check began to read has not ended yet; ask again";
            let error = Error::new(ErrorKind::Throttled, message);
            return Box::pin(async move { Err(error) });
        }
        let means = self.means(store);
        Box::pin(async move {
            let alone = pipeline.map(|name| {
                all.of_pipeline(&name).ok_or_else(|| {
                    let message = "the worker has no such pipeline";
                    Error::new(ErrorKind::InvalidInput, message).with_code(Code::PipelineUnknown)
                })
            });
            let alone = alone.transpose()?;
            let settings: &Settings = alone.as_ref().unwrap_or(&all);
            // The room is that of the whole store, where the rate says how much there will be in it.
            let sharing = if rate.is_some() { &*all } else { settings };
            let check = Check {
                settings,
                all: &sharing.pipelines,
                rate,
                sample: None,
                production,
                clock,
                means,
            };
            let mut items = Vec::new();
            let mut read = |report| {
                items.push(report);
                Ok(ControlFlow::Continue(()))
            };
            let concluded = check.run(&mut read).await?;
            Ok(CheckAnswer {
                semel: CheckAnswer::VERSION,
                verdict: concluded.worst,
                items,
                windows: concluded.windows,
                failure: concluded.failure.as_ref().map(CheckFailure::from),
            })
        })
    }
}

/// The longest wait for one answer of a server.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait for all of them: less than a check may take, so that what was not looked at is told.
const WHOLE: Duration = Duration::from_secs(20);
const _: () = assert!(WHOLE.as_secs() < semel_admin::LONGEST_CHECK.as_secs());
/// The most producers of the store that are gone through.
const MOST_PRODUCERS: usize = 10_000;
/// The pipelines that are looked at at once, so that one server that is away delays its own report alone.
const AT_ONCE: usize = 8;
