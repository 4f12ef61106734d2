//! The members of a query or of a form.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::http::request::Parts;
use semel_core::Code;
use semel_http::{Caller, LargeBody, Problem, Role, body, is_from_own_page};
use tokio::time::timeout;

/// Members by their names, of which some occur several times.
#[derive(Debug)]
pub(crate) struct Form {
    members: Vec<(String, String)>,
    /// Its place among the large ones, for as long as it is in memory.
    _place: Option<LargeBody>,
}

impl Form {
    /// Reads the query of a request for a page; returns who asks.
    ///
    /// # Errors
    ///
    /// 401 without a caller; 413 for too many members
    pub(crate) fn of_query(head: &Parts) -> Result<(Caller, Self), Problem> {
        let caller = body::caller(head, Role::Viewer)?;
        let query = head.uri.query().unwrap_or_default();
        Ok((caller, Self::read(query.as_bytes(), None)?))
    }

    /// Reads the form that a page of this listener sends, of somebody who has the rights of `role`.
    ///
    /// # Errors
    ///
    /// 403 for another role, before the form is read, and `origin-refused` where the browser does not say that it comes
    /// from such a page, which is so of every program; 413
    pub(crate) async fn of_body(
        head: &Parts,
        body: Body,
        caller: &Caller,
        role: Role,
    ) -> Result<Self, Problem> {
        caller.may(role)?;
        Self::of_own_page(head, body, MOST_BYTES).await
    }

    /// Does the same where nobody is known yet, for a form of so many bytes.
    pub(crate) async fn of_own_page(
        head: &Parts,
        body: Body,
        most: usize,
    ) -> Result<Self, Problem> {
        if !is_from_own_page(head) {
            let detail =
                "a form must come from a page of the console; programs use the paths below /v1/";
            let status = StatusCode::FORBIDDEN;
            return Err(Problem::new(status, Code::OriginRefused.as_str(), detail));
        }
        let Ok(body) = timeout(PATIENCE, to_bytes(body, most)).await else {
            let detail = format!("the form took longer than {} s", PATIENCE.as_secs());
            let status = StatusCode::REQUEST_TIMEOUT;
            return Err(Problem::new(status, Code::Timeout.as_str(), detail));
        };
        let body =
            body.map_err(|_| too_large("the form is too long, or broke off; select less"))?;
        Self::read(&body, head.extensions.get().cloned())
    }

    fn read(text: &[u8], place: Option<LargeBody>) -> Result<Self, Problem> {
        // A member takes a byte or two of a text, and much more in memory.
        let members: Vec<_> = form_urlencoded::parse(text)
            .take(MOST_MEMBERS + 1)
            .collect();
        if members.len() > MOST_MEMBERS {
            let detail = format!("the form has more than {MOST_MEMBERS} members; select less");
            return Err(too_large(detail));
        }
        let members = members.into_iter();
        let members = members.map(|(name, value)| (name.into_owned(), value.into_owned()));
        Ok(Self {
            members: members.collect(),
            _place: place,
        })
    }

    /// The text of a member as it was typed: a key may begin or end with a space. Empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        let mut members = self.members.iter();
        let found = members.find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// Every text of a member.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let members = self.members.iter().filter(|(known, _)| known == name);
        members.map(|(_, value)| &**value).collect()
    }
}

fn too_large(detail: impl Into<String>) -> Problem {
    let status = StatusCode::PAYLOAD_TOO_LARGE;
    Problem::new(status, Code::BodyTooLarge.as_str(), detail)
}

/// The longest form: one with a token of a plan.
const MOST_BYTES: usize = 4 << 20;
/// The most members of a form: as many keys as an order may name, and what else an order has.
const MOST_MEMBERS: usize = 2_100;
/// The time for a whole form of somebody whom nobody knows. That of others has arrived before.
const PATIENCE: Duration = Duration::from_secs(5);
/// The letters of a reason: of any alphabet, so many fit into the 1,024 bytes that the API takes.
pub(crate) const MOST_REASON_LETTERS: usize = 341;
