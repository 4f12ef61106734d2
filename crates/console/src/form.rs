//! The members of a query or of a form.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use semel_core::Code;
use semel_http::{Caller, Problem, Role, body, is_from_own_page};

/// Members by their names, of which some occur several times.
#[derive(Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the query of a request for a page; returns who asks.
    ///
    /// # Errors
    ///
    /// 401 without a caller
    pub(crate) fn of_query(head: &Parts) -> Result<(Caller, Self), Problem> {
        let caller = body::caller(head, Role::Viewer)?;
        let query = head.uri.query().unwrap_or_default();
        Ok((caller, Self::read(query.as_bytes())))
    }

    /// Reads the form that a page of this listener sends; returns who sends it.
    ///
    /// # Errors
    ///
    /// 401 without a caller; 403 `origin-refused` where the browser does not say that it comes from such a page, which is
    /// so of every program; 413
    pub(crate) async fn of_body(request: Request) -> Result<(Caller, Self), Problem> {
        let (head, body) = request.into_parts();
        let caller = body::caller(&head, Role::Viewer)?;
        Ok((caller, Self::of_own_page(&head, body, MOST_BYTES).await?))
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
        let Ok(body) = to_bytes(body, most).await else {
            let detail = "the form is too long, or broke off; select less";
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            return Err(Problem::new(status, Code::BodyTooLarge.as_str(), detail));
        };
        Ok(Self::read(&body))
    }

    fn read(text: &[u8]) -> Self {
        let members = form_urlencoded::parse(text);
        Self(members.into_owned().collect())
    }

    /// The text of a member as it was typed: a key may begin or end with a space. Empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        let mut members = self.0.iter();
        let found = members.find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// Every text of a member.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let members = self.0.iter().filter(|(known, _)| known == name);
        members.map(|(_, value)| &**value).collect()
    }
}

/// The longest form: one with a token of a plan.
const MOST_BYTES: usize = 4 << 20;
