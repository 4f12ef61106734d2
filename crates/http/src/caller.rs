//! The one who asks: a name for the audit trail, a role, and the tenant that it is confined to.

use std::fmt;

use axum::http::StatusCode;
use semel_core::Code;
use serde::{Deserialize, Serialize};

use super::Problem;

/// The rights of a caller; each role has those of the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Claims and settles, and gives orders about keys.
    Operator,
    /// Changes what concerns everybody.
    Admin,
}

impl Role {
    /// Every role, the least first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// The role as people and programs see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tenant(Box<str>);

impl Tenant {
    /// The tenant of this name.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self(name.into())
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The one who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The name for the audit trail: that of a token, or `loopback`.
    pub name: Box<str>,
    /// The rights.
    pub role: Role,
    /// The only tenant that the caller may name; without one, every tenant.
    pub tenant: Option<Tenant>,
}

impl Caller {
    /// The caller on a loopback address that shows no token, and may do everything.
    pub fn loopback() -> Self {
        Self {
            name: "loopback".into(),
            role: Role::Admin,
            tenant: None,
        }
    }

    /// Checks that the caller has at least the rights of `role`.
    ///
    /// # Errors
    ///
    /// 403 `forbidden`: it has not.
    pub fn may(&self, role: Role) -> Result<(), Problem> {
        if self.role >= role {
            return Ok(());
        }
        let detail = format!(
            "this takes the role `{role}`; the token has the role `{}`",
            self.role
        );
        Err(forbidden(detail))
    }

    /// Returns the tenant that a request is about, which names `tenant` or none: the named one, else that of the
    /// caller.
    ///
    /// # Errors
    ///
    /// 403 `forbidden`: the caller is confined to another tenant.
    pub fn for_tenant(&self, tenant: Option<&str>) -> Result<Option<Tenant>, Problem> {
        match (tenant, &self.tenant) {
            (None, own) => Ok(own.clone()),
            (Some(named), Some(own)) if named != own.as_str() => {
                Err(forbidden("the token is confined to another tenant"))
            }
            (Some(named), _) => Ok(Some(Tenant::new(named))),
        }
    }
}

fn forbidden(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, Code::Forbidden.as_str(), detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(role: Role, tenant: Option<&str>) -> Caller {
        Caller {
            name: "billing".into(),
            role,
            tenant: tenant.map(Tenant::new),
        }
    }

    #[test]
    fn a_role_has_the_rights_of_the_ones_before_it() {
        for (has, wants, allowed) in [
            (Role::Viewer, Role::Viewer, true),
            (Role::Viewer, Role::Operator, false),
            (Role::Operator, Role::Viewer, true),
            (Role::Operator, Role::Admin, false),
            (Role::Admin, Role::Operator, true),
        ] {
            let answer = caller(has, None).may(wants);
            let status = answer.map_err(|problem| (problem.status(), problem.code()));
            let expected = if allowed {
                Ok(())
            } else {
                Err((StatusCode::FORBIDDEN, "forbidden"))
            };
            assert_eq!(status, expected, "{has} wants what {wants} may");
        }
    }

    #[test]
    fn a_token_of_one_tenant_means_its_own_and_reaches_no_other() {
        let own = caller(Role::Operator, Some("acme"));
        let acme = Some(Tenant::new("acme"));
        assert_eq!(own.for_tenant(None).ok(), Some(acme.clone()));
        assert_eq!(own.for_tenant(Some("acme")).ok(), Some(acme.clone()));
        for other in ["other", "", "ACME"] {
            let refused = own.for_tenant(Some(other)).map_err(|it| it.status());
            assert_eq!(refused, Err(StatusCode::FORBIDDEN), "{other:?}");
        }
        let any = caller(Role::Operator, None);
        assert_eq!(any.for_tenant(None).ok(), Some(None));
        assert_eq!(any.for_tenant(Some("acme")).ok(), Some(acme));
    }
}
