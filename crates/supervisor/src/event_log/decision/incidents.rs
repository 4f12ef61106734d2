//! Decisions about incidents: claims that are lost, stores that fail, connections that break.

use semel_core::{Code, StateKind};
use semel_engine::event::Event;
use semel_operate::value::Span;

use super::super::{lasted_text, wait_text};
use super::Decision;

impl<'a> Decision<'a> {
    /// Describes events of a claim that was lost.
    pub(super) fn is_of_a_lost_claim(&mut self, event: &Event<'a>) -> bool {
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
    pub(super) fn is_of_an_outage(&mut self, event: &Event<'a>) -> bool {
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
    pub(super) fn is_of_a_connection(&mut self, event: &Event<'a>) -> bool {
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
}
