//! `owner` and `runbook`: who answers for a pipeline, and what that person reads first.

use super::fields::Fields;

/// The people behind a pipeline. Both are shown to whoever may see metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The team or the person that an alert goes to.
    pub owner: Option<Box<str>>,
    /// The page that says what to do then: a URL.
    pub runbook: Option<Box<str>>,
}

/// Reads `owner` and `runbook`.
pub(super) fn read(fields: &mut Fields<'_>) -> Ownership {
    Ownership {
        owner: fields.parsed_with("owner", owner),
        runbook: fields.parsed_with("runbook", runbook),
    }
}

fn owner(text: &str) -> Result<Box<str>, String> {
    if text.trim().is_empty() {
        return Err("must not be empty; name a team, as in `team-payments`".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("must be on one line, without control characters".to_owned());
    }
    if text.chars().count() > LONGEST_OWNER {
        return Err(format!("must have at most {LONGEST_OWNER} characters"));
    }
    Ok(text.into())
}

/// Reads the URL. A fault does not repeat the text, which may have a password in it.
fn runbook(text: &str) -> Result<Box<str>, String> {
    let rest = ["http://", "https://"].into_iter().find_map(|scheme| {
        let (start, rest) = text.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let Some(rest) = rest else {
        return Err(
            "must be a URL that begins with http:// or https://, as in `https://wiki.example/payments`"
                .to_owned(),
        );
    };
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("must be a URL of visible ASCII characters; write others as %20".to_owned());
    }
    if text.len() > LONGEST_URL {
        return Err(format!("must have at most {LONGEST_URL} characters"));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(
            "must not have a user or a password: whoever sees the metrics sees it".to_owned(),
        );
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err("must have a host, as in `https://wiki.example/payments`".to_owned());
    }
    Ok(text.into())
}

/// Bounds, since both are labels of a metric.
const LONGEST_OWNER: usize = 100;
const LONGEST_URL: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_a_short_name_on_one_line() {
        let longest = "é".repeat(LONGEST_OWNER);
        for good in ["team-payments", "Zoë, on call", &longest] {
            assert_eq!(owner(good).as_deref(), Ok(good));
        }
        let too_long = longest.clone() + "é";
        for bad in ["", "  ", "team\nother", "a\u{1b}[2J", &too_long] {
            assert!(owner(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_runbook_is_a_url_that_may_be_shown() {
        let of_length = |length: usize| {
            let path = length - "https://wiki/".len();
            format!("https://wiki/{}", "a".repeat(path))
        };
        let longest = of_length(LONGEST_URL);
        for good in [
            "https://wiki.example/payments?x=a@b#act",
            "HTTP://[::1]:8080",
            &longest,
        ] {
            assert_eq!(runbook(good).as_deref(), Ok(good));
        }
        let too_long = of_length(LONGEST_URL + 1);
        for (bad, why) in [
            ("", "begins with"),
            ("wiki.example", "begins with"),
            ("file:///etc/passwd", "begins with"),
            ("javascript:alert(1)//http://x", "begins with"),
            ("https://", "host"),
            ("https:///payments", "host"),
            ("https://:80/", "host"),
            ("https://wiki example/", "visible"),
            ("https://wiki/\n", "visible"),
            ("https://wikí/", "visible"),
            ("https://ann:secret@wiki/", "password"),
            (&too_long, "at most"),
        ] {
            let said = runbook(bad).expect_err(bad);
            assert!(said.contains(why), "{bad}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }
}
