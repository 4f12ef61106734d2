//! The query of a request, read strictly: a member that is unknown, occurs twice or has a value that cannot be meant is
//! refused, with a pointer to it.

use std::num::NonZeroU32;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::request::Parts;
use semel_core::port::store::ListQuery;
use semel_core::{Code, Key, Scope, StateKind, units};
use semel_http::member::printed_key;
use semel_http::{Caller, Problem, Role, body};

/// A request that was understood: who asks, and the members of its query.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) caller: Caller,
    members: Vec<(&'static str, String)>,
}

impl Query {
    /// Reads a request whose query may have these members.
    ///
    /// # Errors
    ///
    /// 401 without a caller, 403 for one that may not read, 400 for another member or one that occurs twice
    pub(crate) fn read(head: &Parts, names: &[&'static str]) -> Result<Self, Problem> {
        let caller = body::caller(head, Role::Viewer)?;
        let mut members = Vec::new();
        let query = head.uri.query().unwrap_or_default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let Some(name) = names.iter().find(|known| ***known == *name) else {
                return Err(unknown(names));
            };
            if members.iter().any(|(known, _)| known == name) {
                return Err(invalid(name, "the member occurs twice; send it once"));
            }
            members.push((*name, value.into_owned()));
        }
        Ok(Self { caller, members })
    }

    /// The text of a member.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let mut members = self.members.iter();
        let (_, text) = members.find(|(known, _)| *known == name)?;
        Some(text)
    }

    /// The members that select something, for [`Cursor`](crate::page::Cursor): all but those that name a page.
    pub(crate) fn selection(&self) -> impl Iterator<Item = (&str, &str)> {
        let members = self.members.iter();
        let members = members.filter(|(name, _)| !PAGE.contains(name));
        members.map(|(name, text)| (*name, &**text))
    }

    /// The text of a member that is compared with what is listed.
    pub(crate) fn short_text(&self, name: &'static str) -> Result<Option<&str>, Problem> {
        let text = self.text(name);
        if text.is_some_and(|text| text.chars().count() > MOST_LETTERS) {
            let detail = format!("this has more than {MOST_LETTERS} characters; send fewer");
            return Err(invalid(name, detail));
        }
        Ok(text)
    }

    /// A member that is `true` or `false`; false without it.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, Problem> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(invalid(name, "this must be `true` or `false`")),
        }
    }

    /// A member that is a number above zero.
    pub(crate) fn count(&self, name: &'static str) -> Result<Option<NonZeroU32>, Problem> {
        let read = |text: &str| {
            let is_number = text.bytes().all(|it| it.is_ascii_digit());
            let count = text.parse().ok().filter(|_| is_number);
            count.ok_or_else(|| invalid(name, "this must be a number above zero"))
        };
        self.text(name).map(read).transpose()
    }

    /// A member that is a duration, as in `90s`.
    pub(crate) fn duration(&self, name: &'static str) -> Result<Option<Duration>, Problem> {
        let text = self.text(name);
        let read = text.map(|text| units::duration(text).map_err(|why| invalid(name, why)));
        read.transpose()
    }

    /// A member that is a key as it is printed.
    pub(crate) fn key(&self, name: &'static str) -> Result<Option<Key>, Problem> {
        let read = |text: &str| printed_key(text).map_err(|why| invalid(name, why));
        self.text(name).map(read).transpose()
    }

    /// The same where a request is about one key.
    pub(crate) fn one_key(&self) -> Result<Key, Problem> {
        let key = self.key("key")?;
        key.ok_or_else(|| invalid("key", "this member is missing; name a key"))
    }

    /// A member that is the name of a state.
    pub(crate) fn state(&self) -> Result<Option<StateKind>, Problem> {
        let Some(text) = self.text("state") else {
            return Ok(None);
        };
        let mut states = StateKind::ALL.into_iter();
        let known = states.find(|state| state.as_str() == text);
        if known.is_none() {
            let names = StateKind::ALL.map(StateKind::as_str).join(", ");
            return Err(invalid("state", format!("this must be one of {names}")));
        }
        Ok(known)
    }

    /// The pipeline and the tenant that the request is about; the tenant that its caller is confined to, if it names
    /// none.
    ///
    /// # Errors
    ///
    /// 403: the caller is confined to another tenant; 400: a name is none
    pub(crate) fn within(&self) -> Result<ListQuery, Problem> {
        within(&self.caller, self.text("pipeline"), self.text("tenant"))
    }

    /// Refuses a caller that is confined to a tenant, where the answer is about all of them.
    ///
    /// # Errors
    ///
    /// 403
    pub(crate) fn sees_everything(&self) -> Result<(), Problem> {
        sees_everything(&self.caller)
    }
}

/// The pipeline and the tenant that a request names; the tenant that its caller is confined to, if it names none.
///
/// # Errors
///
/// 403: the caller is confined to another tenant; 400: a name is none
pub(crate) fn within(
    caller: &Caller,
    pipeline: Option<&str>,
    tenant: Option<&str>,
) -> Result<ListQuery, Problem> {
    let tenant = caller.for_tenant(tenant)?;
    let tenant = tenant.map(|tenant| Box::from(tenant.as_str()));
    let operation = pipeline.map(Box::from);
    for (name, scope) in [
        (
            "tenant",
            Scope::new(tenant.as_deref().unwrap_or_default(), "any"),
        ),
        (
            "pipeline",
            Scope::new("", operation.as_deref().unwrap_or("any")),
        ),
    ] {
        scope.map_err(|why| invalid(name, why.to_string()))?;
    }
    Ok(ListQuery {
        tenant,
        operation,
        ..ListQuery::default()
    })
}

/// Refuses a caller that is confined to a tenant, where the request is about all of them.
///
/// # Errors
///
/// 403
pub(crate) fn sees_everything(caller: &Caller) -> Result<(), Problem> {
    if caller.tenant.is_none() {
        return Ok(());
    }
    let detail = "this is about every tenant, and the token is confined to one; use a token without a tenant";
    let status = StatusCode::FORBIDDEN;
    Err(Problem::new(status, Code::Forbidden.as_str(), detail))
}

/// The problem of a member of the query.
pub(crate) fn invalid(name: &str, detail: impl Into<String>) -> Problem {
    let code = Code::InvalidInput.as_str();
    Problem::new(StatusCode::BAD_REQUEST, code, detail).with("pointer", format!("/{name}"))
}

fn unknown(names: &[&str]) -> Problem {
    let detail = if names.is_empty() {
        "the path takes no query; leave it out".to_owned()
    } else {
        format!(
            "the query has a member that is not known; it takes {}",
            names.join(", ")
        )
    };
    invalid("", detail)
}

/// The longest text that is compared with what is listed, in characters; a key is no longer.
const MOST_LETTERS: usize = 1_024;
/// The members that name a page, and nothing that is on it.
pub(crate) const PAGE: [&str; 2] = ["limit", "cursor"];
