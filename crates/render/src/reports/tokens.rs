//! Tokens of the APIs, without their secrets.

use semel_core::Timestamp;
use semel_http::tokens::Token;
use semel_http::{Role, Tenant};
use semel_operate::value::Time;
use serde::Serialize;

use crate::{Column, Entry, Row};

/// A token without its secret.
#[derive(Serialize)]
pub struct TokenLine {
    name: Box<str>,
    role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<Tenant>,
    created: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Time>,
    is_expired: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<Box<str>>,
}

impl TokenLine {
    /// Lays out a token as it is at the time `now`.
    pub fn of(token: &Token, now: Timestamp) -> Self {
        Self {
            name: token.name.clone(),
            role: token.role,
            tenant: token.tenant.clone(),
            created: Time(token.created),
            expires: token.expires.map(Time),
            is_expired: token.is_expired(now),
            subject: token.subject().map(Into::into),
        }
    }
}

impl std::fmt::Display for TokenLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}  {}", self.name, self.role)?;
        if let Some(tenant) = &self.tenant {
            write!(f, "  tenant {}", tenant.as_str())?;
        }
        if let Some(subject) = &self.subject {
            write!(f, "  certificate of {subject}")?;
        }
        write!(f, "  made {}", self.created.0)
    }
}

impl Entry for TokenLine {
    const COLUMNS: &'static [Column] = &[
        Column::text("name"),
        Column::word("role"),
        Column::text("tenant"),
        Column::time("created"),
        Column::word("expires"),
        Column::text("subject"),
    ];
    const NONE: &'static str = "no tokens";

    fn fill(&self, row: &mut Row) {
        let expires = match self.expires {
            Some(_) if self.is_expired => "expired".to_owned(),
            Some(Time(at)) => at.to_string(),
            None => "never".to_owned(),
        };
        row.text(&self.name)
            .text(self.role.as_str())
            .text(self.tenant.as_ref().map_or("", Tenant::as_str))
            .time(self.created.0)
            .text(&expires)
            .text(self.subject.as_deref().unwrap_or_default());
    }
}
