//! The tenant of a client, where that has to be proved.

use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, request};
use semel_core::Code;
use semel_gateway::{KEY_HEADER, Route};
use semel_http::{ClientCertificate, Problem, Tenant};

use crate::settings::TenantProof;

/// Tells whether a route wants to know the tenant of a request. It passes all others, whatever they prove.
pub(crate) fn is_asked_for(route: &Route, head: &request::Parts) -> bool {
    let has_key = route.derive || head.headers.contains_key(KEY_HEADER);
    has_key && route.methods.contains(&head.method)
}

/// Returns the tenant that a client is known by; nothing if it shows nothing that could name one.
///
/// # Errors
///
/// 401 `unauthorized`: it shows a token that is not good
pub(crate) fn proved(
    proof: &TenantProof,
    head: &request::Parts,
) -> Result<Option<Tenant>, Problem> {
    match proof {
        TenantProof::Certificate => {
            let certificate = head.extensions.get::<ClientCertificate>();
            let name = certificate.and_then(ClientCertificate::common_name);
            Ok(name.map(Tenant::new))
        }
        TenantProof::Jwt { verifier, claim } => {
            let Some(token) = bearer(&head.headers)? else {
                return Ok(None);
            };
            let found = verifier.text_claim(token, claim);
            let found = found.map_err(|fault| unauthorized(&fault.to_string()))?;
            Ok(found.map(Tenant::new))
        }
    }
}

/// The answer to a client that has to show a certificate.
pub(crate) fn certificate_missing() -> Problem {
    let detail = "this API is for clients that show a certificate";
    let code = Code::Unauthorized.as_str();
    Problem::new(StatusCode::UNAUTHORIZED, code, detail)
}

/// The token of a request; nothing if it has none.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    let value = match (sent.next(), sent.next()) {
        (None, _) => return Ok(None),
        (Some(only), None) => only.to_str().ok(),
        (Some(_), Some(_)) => None,
    };
    let token = value.and_then(|value| value.split_once(' '));
    let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match token {
        Some((_, token)) => Ok(Some(token.trim())),
        None => Err(unauthorized("Authorization must be `Bearer` and a JWT")),
    }
}

fn unauthorized(detail: &str) -> Problem {
    let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
    let code = Code::Unauthorized.as_str();
    Problem::new(StatusCode::UNAUTHORIZED, code, detail).with_header(WWW_AUTHENTICATE, challenge)
}
