//! The first decision about a request, by its head alone.

use axum::http::header::{CONTENT_LENGTH, TRAILER, UPGRADE};
use axum::http::{HeaderMap, Method, StatusCode, request};
use semel_core::{Code, Key};
use semel_http::{Problem, Tenant};

use crate::key;
use crate::route::{Route, TenantFrom};

/// The first decision about a request.
#[derive(Debug)]
pub enum Arrival {
    /// It is none of the route's methods.
    Passes,
    /// It has no key, and needs none.
    Keyless,
    /// It is answered with this.
    Refused(Problem),
    /// It runs under a key.
    Keyed {
        /// The key that it was sent with; none if one is to be derived from it.
        key: Option<Key>,
        /// The tenant whose key it is, if the route has tenants.
        tenant: Option<Tenant>,
    },
}

impl Route {
    /// Decides about a request whose head this is.
    pub fn arrival(&self, head: &request::Parts) -> Arrival {
        if !self.methods.contains(&head.method) {
            return Arrival::Passes;
        }
        self.keyed(head).unwrap_or_else(Arrival::Refused)
    }

    fn keyed(&self, head: &request::Parts) -> Result<Arrival, Problem> {
        let invalid = |fault: key::KeyFault| bad(Code::KeyInvalid.as_str(), fault.to_string());
        let key = key::read(&head.headers).map_err(invalid)?;
        if key.is_none() && !self.derive {
            if !self.require_key {
                return Ok(Arrival::Keyless);
            }
            let detail = "this request needs the header Idempotency-Key, a new key for each intent";
            return Err(bad(KEY_MISSING, detail));
        }
        let tunnels = head.method == Method::CONNECT || head.headers.contains_key(UPGRADE);
        if tunnels {
            return Err(unsupported(
                "an upgraded connection has no answer to remember",
            ));
        }
        if head.headers.contains_key(TRAILER) {
            return Err(trailers());
        }
        let tenant = self.tenant_of(head)?;
        if content_length(&head.headers).is_some_and(|len| len > self.max_body_bytes as u64) {
            return Err(self.body_too_large());
        }
        Ok(Arrival::Keyed { key, tenant })
    }

    fn tenant_of(&self, head: &request::Parts) -> Result<Option<Tenant>, Problem> {
        let found = match &self.tenant {
            TenantFrom::Nowhere => return Ok(None),
            TenantFrom::Extension => head.extensions.get::<Tenant>().cloned(),
            TenantFrom::Header(name) => {
                let mut sent = head.headers.get_all(name).iter();
                let value = sent.next().filter(|_| sent.next().is_none());
                let name = value.and_then(|value| value.to_str().ok());
                name.map(|name| Tenant::new(name.trim()))
            }
        };
        let is_name = |tenant: &Tenant| {
            let name = tenant.as_str();
            let fits = (1..=semel_core::Scope::MAX_BYTES).contains(&name.len());
            fits && !name.chars().any(char::is_control)
        };
        let missing = || {
            let detail = "this request does not say which tenant it is for";
            bad(TENANT_MISSING, detail)
        };
        found.filter(is_name).map(Some).ok_or_else(missing)
    }

    /// The answer to a request without a key of which none can be derived, if it is one.
    pub(crate) fn underivable(&self, head: &request::Parts, body: &[u8]) -> Option<Problem> {
        let absent = self.fingerprint.absent_field(head, body)?;
        let detail = format!(
            "this request has no Idempotency-Key and no {absent} in a JSON body, which would tell it from others"
        );
        Some(bad(KEY_MISSING, detail))
    }

    /// The answer to a body over the limit.
    pub(crate) fn body_too_large(&self) -> Problem {
        let max = self.max_body_bytes;
        let detail =
            format!("a request under an idempotency key has a body of at most {max} bytes");
        let code = Code::BodyTooLarge.as_str();
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, code, detail)
    }
}

/// The answer to a request with trailers.
pub(crate) fn trailers() -> Problem {
    unsupported("a request under an idempotency key has no trailers")
}

/// The answer to a body that broke off.
pub(crate) fn body_broken() -> Problem {
    bad(
        Code::InvalidInput.as_str(),
        "the body of the request broke off",
    )
}

fn unsupported(detail: &str) -> Problem {
    let code = Code::Unsupported.as_str();
    Problem::new(StatusCode::NOT_IMPLEMENTED, code, detail)
}

fn bad(code: &'static str, detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, code, detail)
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

const KEY_MISSING: &str = "key-missing";
const TENANT_MISSING: &str = "tenant-missing";

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, Request};

    use super::*;

    fn head(method: &str, headers: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::builder().method(method).uri("/charges");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    const KEY: (&str, &str) = ("idempotency-key", "pay-1");

    fn route(change: impl FnOnce(&mut Route)) -> Route {
        let mut route = Route::default();
        change(&mut route);
        route
    }

    fn refused(arrival: Arrival) -> (u16, &'static str) {
        match arrival {
            Arrival::Refused(problem) => (problem.status().as_u16(), problem.code()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn methods_that_are_safe_or_idempotent_pass_with_and_without_a_key() {
        let route = route(|it| it.require_key = true);
        for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"] {
            let arrival = route.arrival(&head(method, &[KEY]));
            assert!(matches!(arrival, Arrival::Passes), "{method}: {arrival:?}");
        }
        let route = self::route(|it| it.methods = vec![Method::PUT]);
        let arrival = route.arrival(&head("PUT", &[KEY]));
        assert!(matches!(arrival, Arrival::Keyed { .. }), "{arrival:?}");
        assert!(matches!(
            route.arrival(&head("POST", &[KEY])),
            Arrival::Passes
        ));
    }

    #[test]
    fn a_key_is_missing_only_where_one_is_required() {
        let keyless = Route::default().arrival(&head("POST", &[]));
        assert!(matches!(keyless, Arrival::Keyless), "{keyless:?}");
        let required = route(|it| it.require_key = true);
        assert_eq!(
            refused(required.arrival(&head("POST", &[]))),
            (400, "key-missing")
        );
        // One that is derived is never missing.
        let derived = route(|it| (it.require_key, it.derive) = (true, true));
        let arrival = derived.arrival(&head("POST", &[]));
        assert!(
            matches!(arrival, Arrival::Keyed { key: None, .. }),
            "{arrival:?}"
        );
        let sent = derived.arrival(&head("POST", &[KEY]));
        assert!(
            matches!(sent, Arrival::Keyed { key: Some(_), .. }),
            "{sent:?}"
        );
    }

    #[test]
    fn a_key_that_is_none_is_refused_even_where_none_is_required() {
        let route = Route::default();
        for headers in [
            &[("idempotency-key", "")][..],
            &[("idempotency-key", "\"a")],
            &[KEY, KEY],
        ] {
            assert_eq!(
                refused(route.arrival(&head("POST", headers))),
                (400, "key-invalid")
            );
        }
    }

    #[test]
    fn what_cannot_be_remembered_is_refused_with_a_key_and_passes_without() {
        let upgrade = ("upgrade", "websocket");
        let announced = ("trailer", "x-checksum");
        let any = route(|it| it.methods.push(Method::CONNECT));
        for (method, header) in [
            ("POST", upgrade),
            ("POST", announced),
            ("CONNECT", ("a", "b")),
        ] {
            assert_eq!(
                refused(any.arrival(&head(method, &[KEY, header]))),
                (501, "unsupported")
            );
            let keyless = any.arrival(&head(method, &[header]));
            assert!(matches!(keyless, Arrival::Keyless), "{keyless:?}");
        }
        // A client that takes trailers in the answer sends none.
        let arrival = any.arrival(&head("POST", &[KEY, ("te", "trailers")]));
        assert!(matches!(arrival, Arrival::Keyed { .. }), "{arrival:?}");
    }

    #[test]
    fn a_body_that_says_it_is_too_large_is_refused_by_its_head() {
        let route = route(|it| it.max_body_bytes = 10);
        let arrival = route.arrival(&head("POST", &[KEY, ("content-length", "11")]));
        assert_eq!(refused(arrival), (413, "body-too-large"));
        let fits = route.arrival(&head("POST", &[KEY, ("content-length", "10")]));
        assert!(matches!(fits, Arrival::Keyed { .. }), "{fits:?}");
    }

    #[test]
    fn a_tenant_is_where_the_route_says_or_the_request_is_refused() {
        let name = HeaderName::from_static("x-tenant");
        let by_header = route(|it| it.tenant = TenantFrom::Header(name));
        let tenant = |arrival| match arrival {
            Arrival::Keyed { tenant, .. } => tenant.map(|it| it.as_str().to_owned()),
            other => panic!("{other:?}"),
        };
        let arrival = by_header.arrival(&head("POST", &[KEY, ("x-tenant", "acme")]));
        assert_eq!(tenant(arrival).as_deref(), Some("acme"));
        let long = "t".repeat(256);
        for headers in [
            &[KEY][..],
            &[KEY, ("x-tenant", "")],
            &[KEY, ("x-tenant", "a"), ("x-tenant", "b")],
            &[KEY, ("x-tenant", &long)],
        ] {
            let arrival = by_header.arrival(&head("POST", headers));
            assert_eq!(refused(arrival), (400, "tenant-missing"));
        }
        let by_extension = route(|it| it.tenant = TenantFrom::Extension);
        let mut known = head("POST", &[KEY]);
        assert_eq!(
            refused(by_extension.arrival(&known)),
            (400, "tenant-missing")
        );
        known.extensions.insert(Tenant::new("acme"));
        assert_eq!(
            tenant(by_extension.arrival(&known)).as_deref(),
            Some("acme")
        );
        assert_eq!(tenant(Route::default().arrival(&known)), None);
    }
}
