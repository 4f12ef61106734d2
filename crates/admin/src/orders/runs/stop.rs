//! The order that stops a run: what is in hand is finished, and the rest stays set aside.

use semel_core::Timestamp;
use semel_http::{Caller, Problem};
use semel_operate::value::Time;
use serde::Serialize;

use super::super::request;
use super::{Run, RunState};

/// The order that stopped a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StopOrder {
    by: Box<str>,
    reason: Box<str>,
    at: Time,
}

impl StopOrder {
    pub(super) const fn by(&self) -> &str {
        &self.by
    }

    pub(super) const fn reason(&self) -> &str {
        &self.reason
    }
}

impl Run {
    /// Stops the run for the reason in a body, and waits for its end, for as long as a request should take. The first order
    /// counts: a run that is stopped already, or has ended, is left as it is.
    ///
    /// # Errors
    ///
    /// 400: the body cannot be meant
    ///
    /// # Cancel safety
    ///
    /// Safe: the order stands, whoever hangs up.
    pub(crate) async fn stopped(
        &self,
        caller: &Caller,
        body: &[u8],
        at: Timestamp,
    ) -> Result<(), Problem> {
        self.stop_for(request::reason_alone(body)?, caller, at);
        self.answered().await;
        Ok(())
    }

    fn stop_for(&self, reason: Box<str>, caller: &Caller, at: Timestamp) {
        let mut progress = self.progress();
        if progress.state == RunState::Running && progress.stopped.is_none() {
            progress.stopped = Some(StopOrder {
                by: caller.name.clone(),
                reason,
                at: Time(at),
            });
            self.stop.send_replace(true);
        }
    }
}
