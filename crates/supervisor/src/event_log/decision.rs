//! One decision of the engine in the form in which it is logged.

mod headers;
mod incidents;
mod words;

use semel_core::{Duplicate, Operation, StateKind};
use semel_engine::event::{Event, Origin};
use semel_operate::value::Span;
use serde::Serialize;

use self::headers::{correlation_id, replay_id};
use self::words::{message, message_of_claim};
use super::set_aside::{Aside, named};
use super::{Level, wait_text};

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
