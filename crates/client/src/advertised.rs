//! The times that a server names in the headers of its answers.

use std::time::{Duration, SystemTime};

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName};
use semel_core::Clock;

/// Returns the wait that `Retry-After` asks for, a day at most.
pub(crate) fn retry_after(headers: &HeaderMap, clock: &dyn Clock) -> Option<Duration> {
    time(headers, &RETRY_AFTER, clock).map(|wait| wait.min(LONGEST_WAIT))
}

/// Returns the time from now that a header names: whole seconds, or an HTTP date, which is measured from the server's
/// own date where there is one. A date that has passed is now.
pub(crate) fn time(headers: &HeaderMap, name: &HeaderName, clock: &dyn Clock) -> Option<Duration> {
    let named = text(headers, name)?;
    if is_seconds(named) {
        return Some(Duration::from_secs(named.parse().unwrap_or(MOST_SECS)));
    }
    let due = httpdate::parse_http_date(named).ok()?;
    let now = text(headers, &DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    let now = now
        .unwrap_or_else(|| SystemTime::UNIX_EPOCH + Duration::from_millis(clock.now().as_millis()));
    Some(due.duration_since(now).unwrap_or_default())
}

fn is_seconds(named: &str) -> bool {
    !named.is_empty() && named.bytes().all(|byte| byte.is_ascii_digit())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

const LONGEST_WAIT: Duration = Duration::from_secs(86_400);
/// A hundred years, for a number that is longer than any.
const MOST_SECS: u64 = 100 * 366 * 86_400;

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use semel_core::Timestamp;

    use super::*;

    struct Noon;

    impl Clock for Noon {
        fn now(&self) -> Timestamp {
            // Sun, 06 Nov 1994 08:49:37 GMT
            Timestamp::from_millis(784_111_777_000)
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }

    fn wait(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_static(value));
        }
        retry_after(&map, &Noon)
    }

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        let secs = |secs| Some(Duration::from_secs(secs));
        assert_eq!(wait(&[]), None);
        assert_eq!(wait(&[("retry-after", " 7 ")]), secs(7));
        assert_eq!(
            wait(&[("retry-after", "99999999999999999999999")]),
            secs(86_400)
        );
        for nonsense in ["", "soon", "-1", "1.5"] {
            assert_eq!(wait(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
        let in_a_minute = ("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT");
        assert_eq!(wait(&[in_a_minute]), secs(60), "by our clock");
        let date = ("date", "Sun, 06 Nov 1994 08:50:27 GMT");
        assert_eq!(
            wait(&[in_a_minute, date]),
            secs(10),
            "by the server's clock"
        );
        let past = ("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT");
        assert_eq!(wait(&[past]), secs(0));
    }
}
