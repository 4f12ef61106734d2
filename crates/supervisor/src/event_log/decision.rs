//! One decision of the engine in the form in which it is logged.

use semel_core::{Code, Duplicate, Operation, StateKind};
use semel_engine::event::{Event, Origin};
use semel_engine::pipeline::REPLAY_ID;
use semel_operate::value::Span;
use serde::Serialize;

use super::set_aside::{Aside, named};
use super::{Level, lasted_text, wait_text};

/// The object of a log line; its names and their order are stable, and members that do not apply are left out.
#[derive(Debug, Default, Serialize)]
pub struct Decision<'a> {
    /// Empty if the decision concerns the worker as a whole.
    #[serde(skip_serializing_if = "str::is_empty")]
    pipeline: &'a str,
    #[serde(rename = "decision")]
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coordinates: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    /// The trace and the span in which the message is worked on.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    takeover: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    possible_repeat: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<&'static str>,
    /// The members in which a message differs from the first one under its key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differing: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// The number of deliveries, if the decision concerns those of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    message: &'static str,
    /// The decision for people, facts included.
    #[serde(skip)]
    text: String,
    #[serde(skip)]
    attention: Attention,
    /// True if the decision sets something aside or refuses it that came in no message, as the claim of a client.
    #[serde(skip)]
    has_no_message: bool,
    /// The kind and the reason of a message that is set aside, if many may be set aside for one reason.
    #[serde(skip)]
    aside: Option<(Aside, String)>,
}

/// The people that a decision concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Attention {
    /// Nobody in particular.
    #[default]
    None,
    /// The people who look after the quarantine.
    Quarantine,
    /// The operator on call.
    Operator,
}

impl<'a> Decision<'a> {
    /// Returns the decision behind `event`; some events are none.
    pub(super) fn of(
        pipeline: &'a str,
        event: &Event<'a>,
        origin: Option<Origin<'a>>,
    ) -> Option<Self> {
        let span = origin.and_then(|origin| origin.span);
        let mut decision = Self {
            pipeline,
            // A call was read nowhere.
            coordinates: origin
                .map(|origin| origin.coordinates)
                .filter(|it| !it.is_empty()),
            correlation_id: origin.and_then(correlation_id),
            trace_id: span.map(|it| it.trace_id.to_string()),
            span_id: span.map(|it| it.span_id.to_string()),
            replay_id: origin.and_then(replay_id),
            ..Self::default()
        };
        let is_one = decision.goes_on(event)
            || decision.ends_badly(event)
            || decision.is_of_a_lost_claim(event)
            || decision.is_of_an_outage(event)
            || decision.is_of_a_connection(event);
        decision.message = if decision.has_no_message {
            message_of_claim(decision.name)
        } else {
            message(decision.name)
        };
        is_one.then_some(decision)
    }

    /// The level at which the decision is logged.
    pub(super) const fn level(&self) -> Level {
        match self.attention {
            Attention::None | Attention::Quarantine => Level::Info,
            Attention::Operator => Level::Warning,
        }
    }

    /// Tells whether the message went to quarantine.
    pub(super) fn is_quarantined(&self) -> bool {
        self.attention == Attention::Quarantine
    }

    /// Tells whether it refuses or sets aside what came in no message.
    pub(super) const fn has_no_message(&self) -> bool {
        self.has_no_message
    }

    /// Returns the kind and the reason of a message that is set aside.
    pub(super) fn aside(&self) -> Option<(Aside, &str)> {
        self.aside.as_ref().map(|(aside, why)| (*aside, &**why))
    }

    /// Returns the text for people. It contains the key, which is data of the user, if the operator has to look
    /// at the operation.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Describes events of normal work.
    fn goes_on(&mut self, event: &Event<'a>) -> bool {
        match *event {
            Event::Granted { operation, grant } => {
                let operation = self.concerns("granted", operation);
                self.attempt = Some(grant.attempt);
                self.token = Some(grant.token.get());
                self.takeover = grant.takeover.then_some(true);
                self.possible_repeat = grant.possible_repeat.then_some(true);
                if grant.possible_repeat {
                    self.warns(format!(
                        "possible repeat: operation {operation} may have happened before"
                    ));
                } else if grant.formerly_expired {
                    self.warns(format!(
                        "forgotten: operation {operation} happened before its window passed; it \
                         runs again"
                    ));
                } else {
                    let attempt = grant.attempt;
                    self.says(format!("attempt {attempt} begins (operation {operation})"));
                }
            }
            Event::Completed { operation, .. } => {
                let operation = self.concerns("completed", operation);
                self.says(format!("done (operation {operation})"));
            }
            Event::Replayed {
                operation,
                duplicate,
            } => {
                let operation = self.concerns("replayed", operation);
                let duplicate = self.duplicates(duplicate);
                self.says(format!(
                    "skipped: done before, {duplicate} (operation {operation})"
                ));
            }
            Event::Busy { operation, wait } => {
                let operation = self.concerns("busy", operation);
                self.wait = Some(Span(wait));
                let wait = wait_text(wait);
                self.says(format!("held back for {wait} (operation {operation})"));
            }
            Event::Stale { operation, applied } => {
                let operation = self.concerns("stale", operation);
                self.says(format!(
                    "skipped: its entity has version {applied} (operation {operation})"
                ));
            }
            Event::Released {
                operation,
                error,
                wait,
            } => {
                let operation = self.concerns("released", operation);
                self.error = Some(error.to_owned());
                self.wait = Some(Span(wait));
                let wait = wait_text(wait);
                self.says(format!(
                    "failed: {error}; again in {wait} (operation {operation})"
                ));
            }
            _ => return false,
        }
        true
    }

    /// Describes events that set a message aside or delay it.
    fn ends_badly(&mut self, event: &Event<'a>) -> bool {
        match *event {
            Event::Conflicted {
                operation,
                coordinates,
                duplicate,
                differing,
            } => {
                self.concerns("conflict", operation);
                self.duplicates(duplicate);
                self.differing = differing.names().collect();
                let why = format!("the key was used with another request: {differing}");
                self.quarantined(coordinates, &why, "fingerprint-conflict");
            }
            Event::TooOld {
                operation,
                coordinates,
            } => {
                self.concerns("too_old", operation);
                let why = "no record, and older than the window";
                self.quarantined(coordinates, why, "too-old");
            }
            Event::LiveOnly {
                operation,
                coordinates,
            } => {
                self.concerns("live_only", operation);
                let why = "no record, a replay id, and an effect for live messages alone";
                self.quarantined(coordinates, why, "live-only");
            }
            Event::Unusable {
                coordinates,
                unusable,
            } => {
                self.name = "quarantined";
                self.error = Some(unusable.to_string());
                self.quarantined(coordinates, &unusable.to_string(), unusable.code());
            }
            Event::Dead {
                operation,
                coordinates,
                error,
            } => {
                self.concerns("dead", operation);
                self.error = Some(error.to_owned());
                self.came_from(coordinates);
                self.sets_aside(Aside::Dead, error);
                let named = named(operation);
                let at = match coordinates {
                    "" => String::new(),
                    _ => format!("{coordinates}: "),
                };
                self.warns(format!("dead: {at}{error} ({named})"));
            }
            Event::InDoubt {
                operation,
                coordinates,
                error,
            } => {
                self.concerns("in_doubt", operation);
                self.error = Some(error.to_owned());
                self.came_from(coordinates);
                self.sets_aside(Aside::InDoubt, error);
                let named = named(operation);
                let what = if coordinates.is_empty() {
                    "it"
                } else {
                    coordinates
                };
                self.warns(format!(
                    "in doubt: nobody knows whether {what} happened: {error} ({named})"
                ));
            }
            Event::Parked {
                operation,
                coordinates,
                state,
            } => {
                let id = self.concerns("parked", operation);
                self.state = Some(state.as_str());
                self.came_from(coordinates);
                if state == StateKind::InDoubt {
                    self.sets_aside(Aside::InDoubt, "another message of an operation in doubt");
                    let named = named(operation);
                    self.warns(match coordinates {
                        "" => format!("in doubt: the operation was claimed once more ({named})"),
                        _ => format!(
                            "in doubt: {coordinates} is another message of an operation in doubt ({named})"
                        ),
                    });
                } else {
                    self.says(match coordinates {
                        "" => format!("parked: its operation is dead (operation {id})"),
                        _ => format!("set aside: its operation is dead (operation {id})"),
                    });
                }
            }
            _ => return false,
        }
        true
    }

    /// Describes events of a claim that was lost.
    fn is_of_a_lost_claim(&mut self, event: &Event<'a>) -> bool {
        match *event {
            Event::Fenced {
                operation,
                token,
                found,
            } => {
                let operation = self.concerns("fenced", operation);
                self.token = Some(token.get());
                self.state = Some(found.map_or("absent", StateKind::as_str));
                self.warns(format!(
                    "fenced: the claim with token {token} was lost while its effect ran; its \
                     result is discarded (operation {operation})"
                ));
            }
            Event::OutcomeDiffers { operation } => {
                let operation = self.concerns("outcome_differs", operation);
                self.warns(format!(
                    "outcome differs: the effect of a lost claim ended with another outcome than the one that \
                     is recorded (operation {operation})"
                ));
            }
            _ => return false,
        }
        true
    }

    /// Describes the events that a failing store causes.
    fn is_of_an_outage(&mut self, event: &Event<'a>) -> bool {
        match *event {
            Event::StoreFailed { error, wait } => {
                self.name = "store_failed";
                self.error = Some(error.to_string());
                self.code = Some(error.code().as_str());
                self.wait = Some(Span(wait));
                let (code, wait) = (error.code(), wait_text(wait));
                self.warns(format!("{error} [{code}]; trying again in {wait}"));
            }
            Event::BreakerOpened { error, wait } => {
                self.name = "breaker_opened";
                self.error = Some(error.to_string());
                self.code = Some(error.code().as_str());
                self.wait = Some(Span(wait));
                let (code, wait) = (error.code(), wait_text(wait));
                self.warns(format!(
                    "the store is away: {error} [{code}]; one call at a time tries it from now on, the \
                     first in {wait}"
                ));
            }
            Event::BreakerClosed { lasted } => {
                self.name = "breaker_closed";
                self.wait = Some(Span(lasted));
                let lasted = lasted_text(lasted);
                self.says(format!("the store answers again after {lasted}"));
            }
            Event::Elsewhere { deliveries, within } => {
                self.name = "elsewhere";
                self.deliveries = Some(deliveries);
                self.wait = Some(Span(within));
                let within = wait_text(within);
                self.says(format!(
                    "nothing to fetch: {deliveries} messages are out to other workers; those of one that is \
                     gone come back within {within}"
                ));
            }
            Event::DeadLetterRefused { coordinates, error } => {
                self.name = "dead_letter_refused";
                self.coordinates = Some(coordinates);
                self.error = Some(error.to_string());
                self.code = Some(error.code().as_str());
                self.warns(format!(
                    "the dead letter of {coordinates} stays in the store alone: {error} [{}]",
                    error.code()
                ));
            }
            Event::Revoked {
                deliveries,
                given_back,
            } => {
                self.name = "revoked";
                self.says(format!(
                    "{deliveries} deliveries go to another worker; {given_back} of them had not begun"
                ));
            }
            Event::Unprotected { operation, attempt } => {
                let operation = self.concerns("unprotected", operation);
                self.attempt = Some(attempt);
                self.warns(format!(
                    "unprotected: attempt {attempt} without a claim, since the store is away (operation \
                     {operation})"
                ));
            }
            // Housekeeping is no decision about a message.
            _ => return false,
        }
        true
    }

    /// Describes the loss and return of a connection.
    fn is_of_a_connection(&mut self, event: &Event<'a>) -> bool {
        match *event {
            Event::SourceAway { error } => {
                self.name = "source_away";
                self.error = Some(error.to_string());
                self.code = Some(error.code().as_str());
                self.warns(format!("{error} [{}]; trying again", error.code()));
            }
            Event::SourceBack { lasted } => {
                self.name = "source_back";
                self.wait = Some(Span(lasted));
                let lasted = lasted_text(lasted);
                self.says(format!("the broker is back after {lasted}"));
            }
            Event::TargetAway { error, wait } => {
                self.name = "target_away";
                self.error = Some(error.to_string());
                self.code = Some(error.code().as_str());
                self.wait = Some(Span(wait));
                let code = error.code();
                // A probe found it, while nothing is sent.
                let what = if code == Code::TargetAway {
                    "the target is away"
                } else {
                    "cannot publish"
                };
                self.warns(format!("{what}: {error} [{code}]; trying again"));
            }
            Event::TargetBack { lasted } => {
                self.name = "target_back";
                self.wait = Some(Span(lasted));
                let lasted = lasted_text(lasted);
                self.says(format!("the target is back after {lasted}"));
            }
            Event::Paused { cause, error, wait } => {
                self.name = "paused";
                self.error = Some(error.to_owned());
                self.code = Some(cause.code().as_str());
                self.wait = Some(Span(wait));
                let code = cause.code();
                self.warns(format!(
                    "paused: {error} [{code}]; trying one message at a time"
                ));
            }
            Event::Resumed { cause, lasted } => {
                self.name = "resumed";
                self.code = Some(cause.code().as_str());
                self.wait = Some(Span(lasted));
                self.says(format!("goes on after {}", wait_text(lasted)));
            }
            _ => return false,
        }
        true
    }

    fn concerns(&mut self, name: &'static str, operation: &'a Operation) -> String {
        let id = operation.id().to_string();
        self.name = name;
        self.operation_id = Some(id.clone());
        self.tenant = Some(operation.scope.tenant()).filter(|tenant| !tenant.is_empty());
        self.key = Some(operation.key.as_str());
        id
    }

    fn duplicates(&mut self, duplicate: Duplicate) -> &'static str {
        let name = match duplicate {
            Duplicate::Redelivery => "redelivery",
            Duplicate::Republish => "republish",
            Duplicate::Own | Duplicate::Unknown => "unknown",
        };
        self.duplicate = Some(name);
        match duplicate {
            Duplicate::Redelivery => "redelivered",
            Duplicate::Republish => "published again",
            Duplicate::Own | Duplicate::Unknown => "and come again",
        }
    }

    fn quarantined(&mut self, coordinates: &'a str, why: &str, code: &'static str) {
        self.came_from(coordinates);
        self.code = Some(code);
        self.attention = Attention::Quarantine;
        self.text = match coordinates {
            // A claim is refused, and kept nowhere.
            "" => format!("refused: {why} [{code}]"),
            _ => format!("quarantined {coordinates}: {why} [{code}]"),
        };
    }

    /// Notes the place of the message; a claim was read nowhere.
    fn came_from(&mut self, coordinates: &'a str) {
        self.coordinates = Some(coordinates).filter(|it| !it.is_empty());
        self.has_no_message = coordinates.is_empty();
    }

    fn sets_aside(&mut self, aside: Aside, reason: &str) {
        self.aside = Some((aside, reason.to_owned()));
    }

    fn says(&mut self, text: String) {
        self.text = text;
    }

    fn warns(&mut self, text: String) {
        self.text = text;
        self.attention = Attention::Operator;
    }
}

/// The message of a decision, in words that never change.
fn message(name: &str) -> &'static str {
    match name {
        "granted" => "attempt begins",
        "completed" => "done",
        "replayed" => "duplicate of something done: skipped",
        "busy" => "somebody else is at it, or a retry is due later: held back",
        "stale" => "its entity has this version or a later one: skipped",
        "released" => "attempt failed, another follows",
        "conflict" => "the key was used with another request: quarantined",
        "live_only" => "a replay id, and an effect for live messages alone: quarantined",
        "too_old" => "no record, and older than the window: quarantined",
        "quarantined" => "no usable key: quarantined",
        "dead" => "failed for good or out of attempts: kept as a dead letter",
        "in_doubt" => "nobody knows whether it happened: on record",
        "parked" => "its operation is dead or in doubt: kept",
        "fenced" => "claim lost while its effect ran: result discarded",
        "outcome_differs" => "a lost claim ended with another outcome than the recorded one",
        "store_failed" => "store failed: tried again",
        "breaker_opened" => "store away: tried by one call at a time",
        "breaker_closed" => "store answers again",
        "source_away" => "the broker is away: tried again",
        "source_back" => "the broker is back",
        "target_back" => "the target is back",
        "target_away" => "the target is away: tried again",
        "paused" => "paused: one message at a time is tried",
        "resumed" => "goes on after a pause",
        "elsewhere" => "nothing to fetch: other workers have messages in hand",
        "dead_letter_refused" => "the broker takes no such dead letter: kept in the store alone",
        "revoked" => "deliveries go to another worker: what had not begun was given back",
        "unprotected" => "attempt without a claim, since the store is away",
        _ => "",
    }
}

/// The same of what came in no message: nothing is kept of it but the record.
fn message_of_claim(name: &str) -> &'static str {
    match name {
        "conflict" => "the key was used with another request: refused",
        "too_old" => "no record, and older than the window: refused",
        "dead" => "failed for good or out of attempts: on record",
        "parked" => "its operation is dead or in doubt: refused",
        _ => message(name),
    }
}

/// Returns the id of the replay that the message belongs to, if it is sent again.
fn replay_id(origin: Origin<'_>) -> Option<&str> {
    let mut headers = origin.headers.iter();
    let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case(REPLAY_ID))?;
    std::str::from_utf8(value).ok()
}

/// Returns the id that ties a message to others of the same request, from the first of the usual headers.
fn correlation_id(origin: Origin<'_>) -> Option<&str> {
    CORRELATION.iter().find_map(|wanted| {
        let mut headers = origin.headers.iter();
        let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
        std::str::from_utf8(value).ok()
    })
}

const CORRELATION: [&str; 4] = [
    "traceparent",
    "correlation-id",
    "x-correlation-id",
    "x-request-id",
];
