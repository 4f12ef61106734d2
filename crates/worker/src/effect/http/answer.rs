//! The meaning of an answer: by its status, once all of it is there.

use std::time::{Duration, SystemTime};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use hyper::http::response::Parts;

use semel_core::Clock;
use semel_core::outcome::Gathering;
use semel_engine::effect::Verdict;
use semel_engine::system::SystemClock;

use super::super::MOST_OUTCOME_BYTES;
use super::super::excerpt::one_line;
use super::connection;
use super::decisive::{Decisive, is_stored};
use super::target::Target;

/// Reads a body to its end.
///
/// # Errors
///
/// the reason why the body broke off
pub(super) async fn read(mut body: Incoming) -> Result<Gathering, String> {
    let mut gathered = Gathering::new(MOST_OUTCOME_BYTES);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| connection::cause(&error))?;
        if let Some(data) = frame.data_ref() {
            gathered.push(data);
        }
    }
    Ok(gathered)
}

/// The known facts about a provider, which give its refusals their meaning.
#[derive(Debug)]
pub(super) struct Meaning {
    /// True if it recognises the key.
    pub(super) is_keyed: bool,
    /// The refusals that speak for the earlier attempts as well.
    pub(super) decisive: Decisive,
}

/// The verdict on an answer with the head `head`; `body` is its body, or the reason why there is
/// none.
pub(super) fn verdict(
    head: &Parts,
    body: Result<Gathering, Box<str>>,
    target: &Target,
    meaning: &Meaning,
) -> Verdict {
    let status = head.status;
    let told = || {
        let mut told = format!("HTTP {} from {}", status.as_u16(), target.masked());
        let said = body
            .as_ref()
            .map(|body| one_line(body.kept()))
            .unwrap_or_default();
        if !said.is_empty() {
            told.push_str(": ");
            told.push_str(&target.without_secrets(&said));
        }
        told.into()
    };
    match status.as_u16() {
        200..=299 => match body {
            Ok(body) => body.into(),
            Err(error) => Verdict::MaybeApplied { error },
        },
        // The first attempt's own answer.
        _ if is_stored(&head.headers) => Verdict::Dead {
            error: told(),
            decisive: true,
        },
        // With a key, this says that a request with the key is still under way there.
        409 if meaning.is_keyed => Verdict::NotApplied {
            error: told(),
            retry_after: retry_after(&head.headers),
        },
        408 | 425 | 429 | 503 => Verdict::NotApplied {
            error: told(),
            retry_after: retry_after(&head.headers),
        },
        300..=399 => Verdict::Dead {
            decisive: false,
            error: format!(
                "HTTP {} from {}: a redirection, which is not followed",
                status.as_u16(),
                target.masked()
            )
            .into(),
        },
        code @ 400..=499 => Verdict::Dead {
            error: told(),
            decisive: meaning.decisive.has(code),
        },
        _ => Verdict::MaybeApplied { error: told() },
    }
}

/// Tells whether an answer is about the place or its credentials, and so the same for every request: not found, not
/// allowed, moved. Not one that the provider keeps for the key.
pub(super) fn is_of_the_place(head: &Parts) -> bool {
    matches!(
        head.status.as_u16(),
        300..=399 | 401 | 403 | 404 | 405 | 407
    ) && !is_stored(&head.headers)
}

/// The wish of `Retry-After`: seconds, or a date, which is measured from the server's own.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let wish = text(RETRY_AFTER)?;
    if !wish.is_empty() && wish.bytes().all(|byte| byte.is_ascii_digit()) {
        let wish = Duration::from_secs(wish.parse().unwrap_or(u64::MAX));
        return Some(wish.min(LONGEST_WISH));
    }
    let due = httpdate::parse_http_date(wish).ok()?;
    let now = text(DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    let now = now.unwrap_or_else(|| {
        SystemTime::UNIX_EPOCH + Duration::from_millis(SystemClock::new().now().as_millis())
    });
    Some(
        due.duration_since(now)
            .unwrap_or_default()
            .min(LONGEST_WISH),
    )
}

/// The longest wait that an answer can ask for: a day.
const LONGEST_WISH: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use hyper::Response;

    use super::*;

    fn wish(headers: &[(&str, &str)]) -> Option<Duration> {
        let response = headers
            .iter()
            .fold(Response::builder(), |response, (name, value)| {
                response.header(*name, *value)
            });
        retry_after(response.body(()).expect("a response").headers())
    }

    #[test]
    fn a_place_that_moved_or_wants_other_credentials_says_so_by_the_status() {
        let is_of_the_place = |status: u16| {
            let response = Response::builder().status(status).body(());
            super::is_of_the_place(&response.expect("a response").into_parts().0)
        };
        for status in [301, 308, 401, 403, 404, 405, 407] {
            assert!(is_of_the_place(status), "{status}");
        }
        for status in [200, 400, 409, 413, 415, 422, 429, 500, 503] {
            assert!(!is_of_the_place(status), "{status}");
        }
    }

    #[test]
    fn a_wish_is_seconds_or_a_date() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(wish(&[]), None);
        assert_eq!(wish(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(
            wish(&[("retry-after", "99999999999999999999999")]),
            Some(LONGEST_WISH)
        );
        for nonsense in ["", "soon", "-1", "1.5"] {
            assert_eq!(wish(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
        for (due, seconds) in [
            ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
            ("Sunday, 06-Nov-94 08:50:37 GMT", 60),
            ("Sun Nov  6 08:50:37 1994", 60),
            ("Sun, 06 Nov 1994 08:00:00 GMT", 0),
        ] {
            assert_eq!(
                wish(&[date, ("retry-after", due)]),
                Some(Duration::from_secs(seconds)),
                "{due}"
            );
        }
        let far = wish(&[("retry-after", "Tue, 31 Dec 2999 23:59:59 GMT")]);
        assert_eq!(far, Some(LONGEST_WISH));
    }
}
