//! The spans of the API: one for each claim and each step, in the trace that its request carries, with one below it for the
//! call of the store. None of this is done, and no clock is read, while nobody wants spans.

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use semel_core::trace_context::{TRACEPARENT, TRACESTATE};
use semel_core::{ByteString, Carried, Certainty, ClaimId, Code, Operation, Step, TraceContext};
use semel_engine::trace::{End, ProcessKind, ServedRequest, Span, Spans};
use semel_http::Problem;

use crate::answer::Stepped;
use crate::claims::request::Asked as Claim;
use crate::service::Service;
use crate::settlements::request::{Asked, Report};
use crate::trace::{ClaimFacts, ItemTrace, RequestTrace, StoreCall, end_of};

impl<S> Service<S> {
    /// Begins the trace of a request to this path with these headers, if anybody wants spans.
    pub(crate) fn trace(&self, route: &'static str, headers: &HeaderMap) -> Option<RequestTrace> {
        let surroundings = &self.settings.surroundings;
        let share = surroundings.observer.wants_spans()?;
        Some(RequestTrace {
            route,
            carried: Carried::of(&trace_headers(headers)),
            share,
            began_at: surroundings.clock.monotonic(),
        })
    }

    /// Begins the trace of a claim, or of a step with it.
    pub(crate) fn trace_of(
        &self,
        request: Option<&RequestTrace>,
        claim_id: ClaimId,
    ) -> Option<ItemTrace> {
        let request = request?;
        let random = self.settings.surroundings.claim_id().randomness();
        Some(request.item(claim_id, random))
    }

    /// Returns the time, if anybody wants spans.
    pub(crate) fn time_of(&self, trace: Option<&ItemTrace>) -> Option<Duration> {
        trace.map(|_| self.settings.surroundings.clock.monotonic())
    }

    /// Hands over the spans of a claim that was decided so.
    pub(crate) fn trace_claim(
        &self,
        asked: &Claim,
        facts: ClaimFacts,
        call: StoreCall,
        problem: Option<&Problem>,
    ) {
        let Some(trace) = &asked.trace else {
            return;
        };
        let status = problem.map_or(StatusCode::OK, Problem::status);
        let request = &asked.request;
        let of = (&request.operation, request.claim_id);
        self.hand_over(trace, of, (facts.end, status), |spans, span| {
            spans.claim = span(trace.claim, call);
            spans.asked = call.count;
            spans.decision = Some(facts.decision);
            spans.duplicate = facts.duplicate;
            spans.had_trouble = facts.had_trouble || problem.is_some();
            spans.error = problem.map(Problem::detail);
            if let Some(grant) = facts.grant {
                spans.attempt = Some(grant.attempt);
                spans.takeover = grant.takeover;
                spans.resumed = grant.resumed;
                spans.possible_repeat = grant.possible_repeat;
                spans.formerly_expired = grant.formerly_expired;
            }
        });
    }

    /// Hands over the spans of a step that ended so.
    pub(crate) fn trace_step(
        &self,
        asked: &Asked,
        answer: Result<&Stepped, &Problem>,
        call: StoreCall,
        is_batch: bool,
    ) {
        let Some(trace) = &asked.trace else {
            return;
        };
        let end = match answer {
            Ok(stepped) => end_of(stepped.state),
            Err(problem) => end_after(problem),
        };
        let problem = answer.err();
        let status = problem
            .filter(|_| !is_batch)
            .map_or(StatusCode::OK, Problem::status);
        let (verdict, reason) = reported(&asked.report);
        let error = problem.map(Problem::detail).or(reason);
        let handle = &asked.handle;
        let of = (&handle.operation, handle.claim_id);
        self.hand_over(trace, of, (end, status), |spans, span| {
            spans.verdict = verdict;
            spans.error = error.filter(|it| !it.is_empty());
            if let Report::Settle { .. } = &asked.report {
                spans.settle = span(trace.settle, call);
            }
        });
    }

    fn hand_over<'a>(
        &self,
        trace: &'a ItemTrace,
        (operation, claim_id): (&'a Operation, ClaimId),
        (end, status): (End, StatusCode),
        fill: impl FnOnce(&mut Spans<'a>, &dyn Fn(TraceContext, StoreCall) -> Option<Span>),
    ) {
        let surroundings = &self.settings.surroundings;
        let (now, since_1970) = (surroundings.clock.monotonic(), surroundings.clock.now());
        let request = &trace.request;
        let took = now.saturating_sub(request.began_at);
        let began = Duration::from_millis(since_1970.as_millis()).saturating_sub(took);
        let process = Span {
            context: trace.process,
            began,
            took,
        };
        let below = |context, call: StoreCall| {
            let (from, to) = (call.began_at?, call.ended_at?);
            Some(Span {
                context,
                began: began + from.saturating_sub(request.began_at),
                took: to.saturating_sub(from),
            })
        };
        let mut spans = Spans::new(process, NOWHERE, end);
        spans.kind = ProcessKind::Server(ServedRequest {
            method: "POST",
            route: request.route,
            status: status.as_u16(),
        });
        if let Some(carried) = &request.carried {
            spans.parent = Some(carried.context);
            spans.state = carried.state.as_deref();
        }
        spans.operation = Some(operation);
        spans.claim_id = Some(claim_id);
        fill(&mut spans, &below);
        if spans.are_recorded() {
            let name = self.names.of(operation.scope.operation());
            surroundings.observer.observe_spans(name, &spans);
        }
    }
}

/// Returns the end of a step that was answered with a problem. A store that refuses the step works, and the claim is as it
/// was.
fn end_after(problem: &Problem) -> End {
    let is = |code: Code| problem.code() == code.as_str();
    if is(Code::ClaimLost) {
        End::Fenced
    } else if is(Code::InvalidInput) || is(Code::Unsupported) {
        End::Claimed
    } else {
        End::StoreFailed
    }
}

/// Returns the end of the effect as a client reports it, by the name that metrics have for it, and its reason.
fn reported(report: &Report) -> (Option<&'static str>, Option<&str>) {
    let Report::Settle { step, .. } = report else {
        return (None, None);
    };
    match &step.step {
        Step::Start { .. } => (None, None),
        Step::Complete { .. } => (Some("applied"), None),
        Step::Release {
            error, certainty, ..
        } => {
            let verdict = match certainty {
                Certainty::NotApplied => "not_applied",
                Certainty::MaybeApplied => "maybe_applied",
            };
            (Some(verdict), Some(error))
        }
        Step::Fail { error, .. } => (Some("failed"), Some(error)),
    }
}

/// Returns the headers that carry a trace.
fn trace_headers(headers: &HeaderMap) -> Vec<(ByteString, Bytes)> {
    let named = |name: &'static str| {
        let values = headers.get_all(name).iter();
        values.map(move |value| {
            let value = Bytes::copy_from_slice(value.as_bytes());
            (ByteString::from_static(name), value)
        })
    };
    named(TRACEPARENT).chain(named(TRACESTATE)).collect()
}

/// A claim was read nowhere.
const NOWHERE: &str = "";
