//! The settings of a route.

use std::num::NonZeroU32;
use std::time::Duration;

use axum::http::header::{
    CONNECTION, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH,
    CONTENT_TYPE, DATE, ETAG, LAST_MODIFIED, LINK, LOCATION, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VARY,
};
use axum::http::{HeaderName, Method};
use semel_core::claim::AttemptLimits;
use semel_core::{Error, ErrorKind, Result, Store, Window};
use semel_engine::effect::{Class, OnDoubt};
use semel_engine::once::{Declared, Once, Settings};

use crate::evidence::REFUSED_BEFORE;
use crate::fingerprint::Parts;
use crate::statuses::Statuses;
use crate::stored::Stored;

/// The settings of a route: which requests need a key, what a key stands for, and which answers are remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The name under which its keys are kept; `http`. Routes of one name share their keys.
    pub operation: Box<str>,
    /// The methods whose requests are guarded; POST and PATCH. All others pass.
    pub methods: Vec<Method>,
    /// A request without a key is refused instead of passed on.
    pub require_key: bool,
    /// A request without a key gets one that is made of the parts of its fingerprint: whoever sends the same request again
    /// within the window gets the first answer. Without a tenant, `Authorization` is one of the parts. A request without
    /// one of the named fields of its body is refused: nothing would tell it from others.
    pub derive: bool,
    /// The parts of a request that must be the same under one key.
    pub fingerprint: Parts,
    /// The longest wait for the first request under a key to finish; 5 seconds.
    pub wait: Duration,
    /// The time for which a claim outlives a vanished process; 30 seconds.
    pub lease: Duration,
    /// The time for which an answer is remembered; seven days.
    pub window: Duration,
    /// The longest time for the handler and its answer; 30 seconds.
    pub upstream_timeout: Duration,
    /// The longest wait for a store that does not answer; 5 seconds.
    pub patience: Duration,
    /// The way in which the handler takes part in the proof; unkeyed and parked.
    pub class: Class,
    /// The longest body of a guarded request; 1 MiB.
    pub max_body_bytes: usize,
    /// The longest body of an answer that is kept; 1 MiB.
    pub max_answer_bytes: usize,
    /// The answers that are outcomes; `2xx,3xx,4xx`.
    pub outcomes: Statuses,
    /// The answers that are outcomes even after an attempt that may have been applied, besides 2xx; none. Only codes that
    /// the service gives from behind its own look-up of what it did.
    pub decisive: Statuses,
    /// The answers that prove nothing, since the service also gives them after it began; none. Without them, 401, 403,
    /// 407, 408, 425, 429 and 503 say that nothing was applied.
    pub unsure: Statuses,
    /// The headers of an answer that are kept and replayed.
    pub kept_headers: Vec<HeaderName>,
    /// The place where the name of the tenant is; nowhere.
    pub tenant: TenantFrom,
    /// The treatment of requests while the store is away; closed.
    pub fail: OnOutage,
    /// The dialect of the answers.
    pub mode: Mode,
    /// Every request passes unchanged. Its key is recorded beside it, under the route's name and `.shadow`, so that what
    /// the route would do is counted.
    pub shadow: bool,
}

/// The place where the name of the tenant is. Without one, callers with different `Authorization` never share an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TenantFrom {
    /// There is only one.
    #[default]
    Nowhere,
    /// A header, which something in front of this service sets: a client that can choose it chooses its tenant.
    Header(HeaderName),
    /// A [`Tenant`](crate::Tenant) among the extensions of the request, put there by what authenticates callers.
    Extension,
}

/// The treatment of requests while the store is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOutage {
    /// They are refused.
    #[default]
    Closed,
    /// They pass without protection, and their answers say so. A key that another request was seen to run does not pass.
    Open,
}

/// The dialect of the answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As `draft-ietf-httpapi-idempotency-key-header` has it.
    #[default]
    Ietf,
    /// As Stripe answers: no waiting, 400 for a reused key, a window of 24 hours, 5xx are outcomes as well (but 503, which
    /// says that nothing was applied).
    Stripe,
}

impl Default for Route {
    fn default() -> Self {
        Self {
            operation: "http".into(),
            methods: vec![Method::POST, Method::PATCH],
            require_key: false,
            derive: false,
            fingerprint: Parts::default(),
            wait: Duration::from_secs(5),
            lease: Duration::from_secs(30),
            window: Window::DEFAULT.duration(),
            upstream_timeout: Duration::from_secs(30),
            patience: Duration::from_secs(5),
            class: Class::Unkeyed(OnDoubt::Park),
            max_body_bytes: 1 << 20,
            max_answer_bytes: 1 << 20,
            outcomes: Statuses::of_classes(2..=4),
            decisive: Statuses::NONE,
            unsure: Statuses::NONE,
            kept_headers: KEPT.to_vec(),
            tenant: TenantFrom::Nowhere,
            fail: OnOutage::Closed,
            mode: Mode::Ietf,
            shadow: false,
        }
    }
}

impl Route {
    /// Returns the default settings of a route, those that it shares with other operations as `settings` has them: the
    /// class, the wait, the lease, the window, the time limit, the patience and the longest answer. A patience that was
    /// not changed is that of a route, and an effect without a time limit has that of a route, too.
    pub fn with_settings(settings: &Settings) -> Self {
        let (route, usual) = (Self::default(), Settings::default());
        Self {
            wait: settings.wait,
            lease: settings.lease,
            window: settings.window.duration(),
            upstream_timeout: settings.timeout.unwrap_or(route.upstream_timeout),
            patience: if settings.patience == usual.patience {
                route.patience
            } else {
                settings.patience
            },
            class: settings.class,
            max_answer_bytes: settings.outcome_limit_bytes,
            ..route
        }
    }

    /// Checks the settings that only HTTP knows; those of the engine are checked with an operation.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: no methods; outcomes without 2xx, or with a code that says "not applied"; a decisive code
    /// that says nothing about earlier attempts; 2xx that prove nothing; a header that is never kept; a class that an
    /// HTTP handler cannot have
    pub fn check(&self) -> Result<()> {
        let released = REFUSED_BEFORE
            .into_iter()
            .find(|code| self.outcomes.names(*code));
        let indecisive = REFUSED_BEFORE.into_iter().chain(300..400).chain([404, 405]);
        let indecisive = indecisive.chain(self.is_keyed().then_some(409));
        let indecisive = { indecisive }.find(|code| self.decisive.has_code(*code));
        let fault = if self.methods.is_empty() {
            "a route guards at least one method".to_owned()
        } else if let Some(code) = released {
            format!("{code} says that nothing was applied, so it is never an outcome")
        } else if (200..300).any(|code| self.unsure.has_code(code)) {
            "2xx are outcomes, so none of them proves nothing".to_owned()
        } else if let Some(code) = indecisive {
            format!("{code} says nothing about earlier attempts, so it is never decisive")
        } else if !self.outcomes.has_class(2) {
            "2xx are outcomes: without them, every success would be a doubt".to_owned()
        } else if let Some(name) = self
            .kept_headers
            .iter()
            .find(|name| NEVER_KEPT.contains(name))
        {
            format!("the header {name} is never kept")
        } else if matches!(self.class, Class::Transactional | Class::Streamed) {
            "a route is keyed or unkeyed".to_owned()
        } else if self.upstream_timeout.is_zero() {
            "the time for the handler must be longer than zero".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::InvalidInput, fault))
    }

    /// Returns the operation under which the engine runs a request of this route.
    pub(crate) fn declared<S: Store + Clone>(&self, once: &Once<S>) -> Declared<S> {
        // A client's retries are its own, and an answer that says "not applied" always releases the key.
        let limits = AttemptLimits {
            failed: MANY_ATTEMPTS,
            ..AttemptLimits::default()
        };
        let is_stripe = self.mode == Mode::Stripe;
        let declared = once
            .operation(&self.operation)
            .limits(limits)
            .backoff(Duration::ZERO, Duration::ZERO)
            .wait(if is_stripe { Duration::ZERO } else { self.wait })
            .window(if is_stripe { A_DAY } else { self.window })
            .lease(self.lease)
            .timeout(self.upstream_timeout)
            .patience(self.patience)
            // The answer itself is measured before.
            .outcome_limit_bytes(usize::MAX)
            .refused_outcome(Stored::refused);
        match self.class {
            Class::Keyed { provider_window } => declared.keyed(provider_window),
            Class::Unkeyed(on_doubt) => declared.unkeyed(on_doubt),
            // Refused by the check.
            Class::Transactional | Class::Streamed => declared,
        }
    }

    /// Tells whether the handler recognises keys itself.
    pub(crate) const fn is_keyed(&self) -> bool {
        matches!(self.class, Class::Keyed { .. })
    }
}

/// More attempts than any client makes, within what every store can count.
const MANY_ATTEMPTS: NonZeroU32 = match NonZeroU32::new(1_000_000_000) {
    Some(many) => many,
    None => NonZeroU32::MAX,
};

const A_DAY: Duration = Duration::from_secs(86_400);

/// The headers that are kept unless the route says otherwise.
const KEPT: [HeaderName; 9] = [
    CONTENT_TYPE,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_DISPOSITION,
    LOCATION,
    ETAG,
    LAST_MODIFIED,
    LINK,
    VARY,
];

/// The headers that belong to one answer, one caller or one connection.
const NEVER_KEPT: [HeaderName; 12] = [
    SET_COOKIE,
    DATE,
    CONNECTION,
    CONTENT_LENGTH,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("proxy-connection"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Route)) -> String {
        let mut route = Route::default();
        change(&mut route);
        route.check().expect_err("refused").to_string()
    }

    #[test]
    fn the_defaults_are_those_of_the_book() {
        let route = Route::default();
        assert!(route.check().is_ok());
        assert_eq!(route.methods, [Method::POST, Method::PATCH]);
        assert_eq!(route.wait, Duration::from_secs(5));
        assert_eq!(route.window, Duration::from_secs(7 * 86_400));
        assert_eq!(route.class, Class::Unkeyed(OnDoubt::Park));
        assert_eq!(
            (route.max_body_bytes, route.max_answer_bytes),
            (1 << 20, 1 << 20)
        );
        assert_eq!(route.fail, OnOutage::Closed);
        assert!(!route.require_key && !route.derive && !route.shadow);
        assert_eq!(route.outcomes.to_string(), "2xx,3xx,4xx");
        assert_eq!(route.outcomes, "2xx,3xx,4xx".parse().expect("statuses"));
    }

    #[test]
    fn the_engine_is_set_up_as_the_route_says() {
        let clock = std::sync::Arc::new(semel_engine::system::SystemClock::new());
        let store = std::sync::Arc::new(semel_store_memory::MemoryStore::new(clock));
        let once = Once::new(store);
        let seconds = Duration::from_secs;
        let provider_window = seconds(3_600);
        let route = Route {
            wait: seconds(1),
            lease: seconds(2),
            window: seconds(7_200),
            upstream_timeout: seconds(3),
            patience: seconds(4),
            class: Class::Keyed { provider_window },
            ..Route::default()
        };
        let settings = route.declared(&once).settings().clone();
        assert_eq!((settings.wait, settings.lease), (seconds(1), seconds(2)));
        assert_eq!(settings.window.duration(), seconds(7_200));
        assert_eq!(
            (settings.timeout, settings.patience),
            (Some(seconds(3)), seconds(4))
        );
        assert_eq!(settings.class, route.class);
        let stripe = Route {
            mode: Mode::Stripe,
            ..route
        };
        let settings = stripe.declared(&once).settings().clone();
        assert_eq!(
            (settings.wait, settings.window.duration()),
            (Duration::ZERO, A_DAY)
        );
    }

    #[test]
    fn a_route_begins_with_the_settings_of_its_handle() {
        let usual = Settings::default();
        assert_eq!(Route::with_settings(&usual), Route::default());
        let seconds = Duration::from_secs;
        let provider_window = seconds(60);
        let mut settings = usual;
        settings.wait = seconds(1);
        settings.lease = seconds(2);
        settings.window = Window::new(seconds(3_600));
        settings.timeout = Some(seconds(3));
        settings.patience = seconds(4);
        settings.class = Class::Keyed { provider_window };
        settings.outcome_limit_bytes = 7;
        let expected = Route {
            wait: seconds(1),
            lease: seconds(2),
            window: seconds(3_600),
            upstream_timeout: seconds(3),
            patience: seconds(4),
            class: settings.class,
            max_answer_bytes: 7,
            ..Route::default()
        };
        assert_eq!(Route::with_settings(&settings), expected);
        settings.timeout = None;
        let unlimited = Route::with_settings(&settings);
        assert_eq!(unlimited.upstream_timeout, seconds(30));
    }

    #[test]
    fn what_cannot_hold_is_refused() {
        assert!(refused(|it| it.methods.clear()).contains("method"));
        for text in ["2xx,429", "2xx,503", "2xx,401", "2xx,408"] {
            let outcomes = text.parse().expect("statuses");
            assert!(
                refused(|it| it.outcomes = outcomes).contains("never an outcome"),
                "{text}"
            );
        }
        let unsure = "204".parse().expect("statuses");
        assert!(refused(|it| it.unsure = unsure).contains("2xx are outcomes"));
        for text in ["403", "404", "405", "408", "301", "3xx", "4xx", "503"] {
            let decisive = text.parse().expect("statuses");
            assert!(
                refused(|it| it.decisive = decisive).contains("never decisive"),
                "{text}"
            );
        }
        let decisive = |text: &str, class| Route {
            decisive: text.parse().expect("statuses"),
            class,
            ..Route::default()
        };
        let provider_window = Duration::from_secs(60);
        let keyed = Class::Keyed { provider_window };
        assert!(
            decisive("402,409,422", Route::default().class)
                .check()
                .is_ok()
        );
        assert!(decisive("402,422", keyed).check().is_ok());
        assert!(decisive("409", keyed).check().is_err());
        assert!(refused(|it| it.outcomes = "4xx".parse().expect("it")).contains("2xx"));
        for name in [SET_COOKIE, DATE, TRANSFER_ENCODING, CONTENT_LENGTH] {
            assert!(refused(|it| it.kept_headers.push(name)).contains("never kept"));
        }
        assert!(refused(|it| it.class = Class::Transactional).contains("keyed"));
        assert!(refused(|it| it.upstream_timeout = Duration::ZERO).contains("zero"));
    }
}
