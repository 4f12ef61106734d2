//! Events of the engine for whoever watches the service, by the name of the operation: what was decided about a claim,
//! and what became of it.

use std::time::Duration;

use semel_core::{Admission, Differing, Settled, StateKind, Step};
use semel_engine::event::{Event, Origin};

use crate::claims::request::Asked as Claim;
use crate::service::Service;
use crate::settlements::request::{Asked, Report};
use crate::trace::ItemTrace;

impl<S> Service<S> {
    /// Tells a decision about a claim. A failure of the store is no decision.
    pub(crate) fn tell_decision(&self, asked: &Claim, admission: &Admission) {
        let operation = &asked.request.operation;
        let trace = asked.trace.as_ref();
        let tell = |event: &Event<'_>| self.tell(operation.scope.operation(), event, trace);
        match admission {
            Admission::Granted(claim) => tell(&Event::Granted {
                operation,
                grant: claim.grant(),
            }),
            Admission::Replay { duplicate, .. } => tell(&Event::Replayed {
                operation,
                duplicate: *duplicate,
            }),
            Admission::Busy { until, now } => tell(&Event::Busy {
                operation,
                wait: until.since(*now),
            }),
            Admission::Conflict { duplicate, first } => {
                let differing = match &asked.reading {
                    Some(reading) => reading.differing(operation, first.as_ref()),
                    None => Differing::NoMembers,
                };
                tell(&Event::Conflicted {
                    operation,
                    coordinates: NOWHERE,
                    duplicate: *duplicate,
                    differing: &differing,
                });
            }
            Admission::Stale { applied } => tell(&Event::Stale {
                operation,
                applied: *applied,
            }),
            Admission::TooOld => tell(&Event::TooOld {
                operation,
                coordinates: NOWHERE,
            }),
            Admission::Parked { state, .. } => tell(&Event::Parked {
                operation,
                coordinates: NOWHERE,
                state: *state,
            }),
            Admission::Failed(_) => {}
        }
    }

    /// Tells what became of a claim.
    pub(crate) fn tell_settled(&self, asked: &Asked, settled: &Settled) {
        let state = match settled {
            Settled::Now(state) => *state,
            Settled::Fenced { found } => return self.tell_lost(asked, *found),
            Settled::Failed(_) => return,
        };
        let (error, wait) = match &asked.report {
            Report::Settle { step, .. } => match &step.step {
                Step::Release { error, after, .. } => (&**error, *after),
                Step::Fail { error, .. } => (&**error, Duration::ZERO),
                Step::Start { .. } | Step::Complete { .. } => ("", Duration::ZERO),
            },
            Report::Renew(_) => return,
        };
        let operation = &asked.handle.operation;
        let coordinates = NOWHERE;
        let event = match state {
            StateKind::Claimed | StateKind::Started => return,
            StateKind::Completed => Event::Completed {
                operation,
                takeover: false,
            },
            StateKind::Released => Event::Released {
                operation,
                error,
                wait,
            },
            StateKind::Dead => Event::Dead {
                operation,
                coordinates,
                error,
            },
            StateKind::InDoubt => Event::InDoubt {
                operation,
                coordinates,
                error,
            },
        };
        self.tell(operation.scope.operation(), &event, asked.trace.as_ref());
    }

    /// Tells that a step came from a claim that is lost.
    pub(crate) fn tell_lost(&self, asked: &Asked, found: Option<StateKind>) {
        let operation = &asked.handle.operation;
        let fenced = Event::Fenced {
            operation,
            token: asked.handle.token,
            found,
        };
        self.tell(operation.scope.operation(), &fenced, asked.trace.as_ref());
    }

    fn tell(&self, operation: &str, event: &Event<'_>, trace: Option<&ItemTrace>) {
        let observer = &self.settings.surroundings.observer;
        if !observer.is_watching() {
            return;
        }
        let name = self.names.of(operation);
        match trace {
            Some(trace) => {
                let origin = Origin::new(NOWHERE, &[]).in_span(Some(trace.process));
                observer.observe_message(name, event, origin);
            }
            None => observer.observe(name, event),
        }
    }
}

/// A claim was read nowhere.
const NOWHERE: &str = "";
