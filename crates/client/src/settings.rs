//! Settings of retries, and of intents.

use std::num::NonZeroU32;
use std::time::Duration;

use http::HeaderName;
use semel_core::{Backoff, Error, ErrorKind, Result};
use semel_engine::effect::within_provider_window;
use semel_gateway::{KEY_HEADER, Route, Statuses};

use crate::fault::{Fault, fault_of};

/// The facts about a server, and the patience with it.
///
/// ```
/// use std::time::Duration;
/// use semel_client::Settings;
///
/// let provider = Settings {
///     budget: Duration::from_secs(20),
///     ..Settings::keyed(Duration::from_secs(24 * 3_600))
/// };
/// assert!(provider.check().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    /// The time for which the server recognises a key, as its documentation advertises it; none if it knows nothing of
    /// keys. No request is repeated under a key that the server may have forgotten: a margin of an eighth, at most one
    /// minute, is kept before the end.
    pub window: Option<Duration>,
    /// A header of answers by which the server advertises its window, in whole seconds or as an HTTP date; none. The
    /// draft of the IETF names no such header. Where both are known, the shorter one counts. A number holds for all
    /// requests until the server names another; zero is ignored.
    pub window_header: Option<HeaderName>,
    /// The header in which the key is sent; `Idempotency-Key`.
    pub key_header: HeaderName,
    /// True if the key is sent in quotes, as a string of RFC 8941, which the draft of the IETF asks for and most
    /// servers do not; no.
    pub quotes: bool,
    /// True if a request that has neither a key nor an [`Intent`](crate::Intent), and whose method is not idempotent,
    /// gets a fresh key, which all attempts of this one call share; yes. Nothing of the kind is sent to a server
    /// without a window.
    pub fresh_keys: bool,
    /// The most attempts of one call; 10.
    pub attempts: NonZeroU32,
    /// The time that one attempt may take, up to the last byte of the answer; 30 seconds.
    pub attempt_timeout: Duration,
    /// The time that one call may take, its waits included; 60 seconds.
    pub budget: Duration,
    /// The bounds of the waits between attempts, of which each is random between zero and the bound; 200 milliseconds,
    /// then doubled up to 10 seconds. What a server asks for in `Retry-After` is waited for as well.
    pub backoff: Backoff,
    /// The codes of refusals that speak for earlier attempts as well, since the server sends them from behind its
    /// look-up of the key; none. After an attempt that may have been applied, no other refusal says that nothing was.
    pub decisive: Statuses,
    /// The codes that the server, or a proxy before it, also gives after the request began, as many give 503 for a handler
    /// that took too long or a connection that broke off; none. Without them, 401, 403, 407, 408, 425, 429 and 503 say
    /// that this attempt was not applied.
    pub unsure: Statuses,
    /// The longest answer that is read; 16 MiB.
    pub answer_limit_bytes: usize,
    /// Tells what an error of the service below says of the request; [`fault_of`].
    pub fault: fn(&(dyn std::error::Error + 'static)) -> Fault,
}

impl Settings {
    /// Returns the settings for a server that recognises keys for `window`.
    pub fn keyed(window: Duration) -> Self {
        Self {
            window: Some(window),
            ..Self::unkeyed()
        }
    }

    /// Returns the settings for a server that knows nothing of keys: a request whose method is not idempotent is
    /// repeated only while it surely was not applied.
    pub fn unkeyed() -> Self {
        Self {
            window: None,
            window_header: None,
            key_header: KEY_HEADER,
            quotes: false,
            fresh_keys: true,
            attempts: TEN,
            attempt_timeout: Duration::from_secs(30),
            budget: Duration::from_secs(60),
            backoff: Backoff {
                first: Duration::from_millis(200),
                most: Duration::from_secs(10),
            },
            decisive: Statuses::NONE,
            unsure: Statuses::NONE,
            answer_limit_bytes: 16 << 20,
            fault: fault_of,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: a time of zero
    pub fn check(&self) -> Result<()> {
        let fault = if self.window.is_some_and(|window| window.is_zero()) {
            "the window of the server must be longer than zero; a server without one is `unkeyed`"
        } else if self.attempt_timeout.is_zero() || self.budget.is_zero() {
            "the time of an attempt and the budget must be longer than zero"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::InvalidInput, fault))
    }

    /// Returns the time after the first request within which a key may be sent again.
    pub(crate) fn usable_window(&self) -> Option<Duration> {
        self.window.map(within_provider_window)
    }
}

/// The terms on which a store keeps intents and their answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentSettings {
    /// The time for which an answer is kept, and given again without a request; 24 hours.
    pub answers_for: Duration,
    /// The headers of an answer that are kept; those that a
    /// [`Route`](semel_gateway::Route) keeps.
    pub kept_headers: Vec<HeaderName>,
    /// The longest answer that is kept; 1 MiB. A longer one reaches the first caller whole.
    pub answer_limit_bytes: usize,
    /// The time after which another process goes on with the intent of one that has vanished; 10 seconds. It is renewed
    /// while a call lasts.
    pub lease: Duration,
    /// The longest wait for a store that does not answer; 30 seconds.
    pub patience: Duration,
}

impl Default for IntentSettings {
    fn default() -> Self {
        Self {
            answers_for: Duration::from_secs(24 * 3_600),
            kept_headers: Route::default().kept_headers,
            answer_limit_bytes: 1 << 20,
            lease: Duration::from_secs(10),
            patience: Duration::from_secs(30),
        }
    }
}

const TEN: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_zero_are_refused() {
        let day = Duration::from_secs(86_400);
        assert!(Settings::keyed(day).check().is_ok() && Settings::unkeyed().check().is_ok());
        assert!(Settings::keyed(Duration::ZERO).check().is_err());
        let no_budget = Settings {
            budget: Duration::ZERO,
            ..Settings::unkeyed()
        };
        let no_time = Settings {
            attempt_timeout: Duration::ZERO,
            ..Settings::unkeyed()
        };
        assert!(no_budget.check().is_err() && no_time.check().is_err());
    }

    #[test]
    fn a_margin_is_kept_before_the_end_of_the_window() {
        let usable = |secs| Settings::keyed(Duration::from_secs(secs)).usable_window();
        assert_eq!(usable(80), Some(Duration::from_secs(70)));
        assert_eq!(usable(86_400), Some(Duration::from_secs(86_340)));
        assert_eq!(Settings::unkeyed().usable_window(), None);
    }
}
