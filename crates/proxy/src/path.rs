//! The paths of requests: which route a path belongs to, and which paths a server may read in two ways.

use std::fmt;
use std::str::FromStr;

/// The paths of a route: one path, everything below one, or all.
///
/// A path is compared as the client wrote it, byte by byte, its query left out. One that a server would put elsewhere
/// after it has decoded `%2F`, or resolved `..`, does not get around a route: the proxy refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern(Shape);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Exact(Box<str>),
    /// Ends with a slash.
    Below(Box<str>),
    All,
}

impl PathPattern {
    /// The pattern of all paths.
    pub const ALL: Self = Self(Shape::All);

    /// Tells whether `path` is one of them.
    pub fn matches(&self, path: &str) -> bool {
        match &self.0 {
            Shape::Exact(exact) => path == &**exact,
            Shape::Below(folder) => path.starts_with(&**folder),
            Shape::All => true,
        }
    }
}

/// Reads `/charges`, that path alone; `/charges/*`, what follows the slash; or `*`, all.
impl FromStr for PathPattern {
    type Err = InvalidPath;

    fn from_str(text: &str) -> Result<Self, InvalidPath> {
        let invalid = |fault| InvalidPath {
            text: text.into(),
            fault,
        };
        if matches!(text, "*" | "/*") {
            return Ok(Self::ALL);
        }
        if !text.starts_with('/') {
            return Err(invalid("does not begin with a slash"));
        }
        let (path, is_folder) = match text.strip_suffix("/*") {
            Some(folder) => (format!("{folder}/"), true),
            None => (text.to_owned(), false),
        };
        if path.contains('*') {
            return Err(invalid("has a `*` that is not all of its last part"));
        }
        if path.contains(['?', '#']) {
            return Err(invalid("has a query or a fragment, which are not compared"));
        }
        let is_sendable = path.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_sendable {
            return Err(invalid(
                "has a character that a request sends encoded with `%`",
            ));
        }
        if normalized(&path) != path {
            return Err(invalid(
                "can be written in a shorter way, without `//`, `..`, `;` and needless `%`",
            ));
        }
        let shape = if is_folder {
            Shape::Below
        } else {
            Shape::Exact
        };
        Ok(Self(shape(path.into())))
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Shape::Exact(path) => f.write_str(path),
            Shape::Below(folder) => write!(f, "{folder}*"),
            Shape::All => f.write_str("*"),
        }
    }
}

/// The text that is no pattern of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPath {
    text: Box<str>,
    fault: &'static str,
}

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, fault } = self;
        write!(
            f,
            "the path `{text}` {fault}; `/charges` is one path, `/charges/*` what follows the slash, `*` all"
        )
    }
}

impl std::error::Error for InvalidPath {}

/// Tells whether a path may have another normal form than itself.
pub(crate) fn can_be_shortened(path: &str) -> bool {
    path.contains(['%', '\\', ';']) || path.contains("//") || path.contains("/.")
}

/// Tells whether the `..` of a path lead out of its root, in one of the ways to read it: with a path of the upstream before
/// it, they would lead out of that.
pub(crate) fn climbs(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        let decoded = decoded(part.as_bytes());
        let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
        let names = decoded.split(is_slash).map(name);
        // A slash that is encoded is none for some servers, which see one name there.
        let (mut up, mut is_named) = (0, false);
        for name in names {
            match name {
                b"" | b"." => {}
                b".." => up += 1,
                _ => is_named = true,
            }
        }
        let Some(left) = depth.checked_sub(up) else {
            return true;
        };
        depth = left + usize::from(is_named && up == 0);
    }
    false
}

/// Returns the path that a server makes of `path` that goes by the letter (RFC 3986 §5.2.4): only its dots are resolved.
pub(crate) fn resolved(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let mut ends_with_slash = false;
    for part in path.split('/').skip(1) {
        let decoded = decoded(part.as_bytes());
        ends_with_slash = matches!(&decoded[..], b"." | b"..");
        match &decoded[..] {
            b"." => {}
            b".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let slash = if ends_with_slash && !parts.is_empty() {
        "/"
    } else {
        ""
    };
    format!("/{}{slash}", parts.join("/"))
}

/// Returns the path that the most obliging server makes of `path`: decoded, with `\` as a slash, without empty parts and
/// what follows a `;` in each, and with its dots resolved.
pub(crate) fn normalized(path: &str) -> String {
    let decoded = decoded(path.as_bytes());
    let mut parts: Vec<&[u8]> = Vec::new();
    let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    let mut ends_with_slash = false;
    for part in decoded.split(is_slash) {
        let part = name(part);
        ends_with_slash = matches!(part, b"" | b"." | b"..");
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut joined = Vec::with_capacity(decoded.len());
    for part in &parts {
        joined.push(b'/');
        joined.extend_from_slice(part);
    }
    if ends_with_slash || parts.is_empty() {
        joined.push(b'/');
    }
    String::from_utf8_lossy(&joined).into_owned()
}

/// Returns the path without what follows a `;` in each part, before anything is decoded.
pub(crate) fn without_parameters(path: &str) -> String {
    let parts = path.split('/');
    let names = parts.map(|part| part.split(';').next().unwrap_or_default());
    names.collect::<Vec<_>>().join("/")
}

/// Returns the path with one slash where it has several.
pub(crate) fn merged(path: &str) -> String {
    let mut merged = String::with_capacity(path.len());
    for character in path.chars() {
        if character != '/' || !merged.ends_with('/') {
            merged.push(character);
        }
    }
    merged
}

/// Returns the name in a part of a path: some servers read what follows a `;` as something else.
fn name(part: &[u8]) -> &[u8] {
    let end = part.iter().position(|byte| *byte == b';');
    &part[..end.unwrap_or(part.len())]
}

/// Decodes `%` until nothing is left to decode: two servers in a row may each do it once.
fn decoded(path: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(path.len());
    for byte in path {
        decoded.push(*byte);
        while let Some(hex) = decoded.last_chunk::<3>().copied().and_then(hex) {
            decoded.truncate(decoded.len() - 3);
            decoded.push(hex);
        }
    }
    decoded
}

fn hex([percent, high, low]: [u8; 3]) -> Option<u8> {
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let (high, low) = (digit(high)?, digit(low)?);
    (percent == b'%').then_some(high * 16 + low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> PathPattern {
        text.parse().expect("a pattern")
    }

    #[test]
    fn a_pattern_is_one_path_or_what_follows_a_slash_or_all() {
        let one = pattern("/charges");
        assert!(one.matches("/charges"));
        for other in ["/charges/", "/charges/1", "/Charges", "/", "/chargesx"] {
            assert!(!one.matches(other), "{other}");
        }
        let below = pattern("/charges/*");
        for path in ["/charges/", "/charges/1", "/charges/1/refunds"] {
            assert!(below.matches(path), "{path}");
        }
        assert!(!below.matches("/charges") && !below.matches("/charges2/1"));
        for all in ["*", "/*"] {
            assert!(pattern(all).matches("/") && pattern(all).matches("/a/b"));
        }
    }

    #[test]
    fn a_pattern_is_written_as_it_was_read() {
        for text in ["/charges", "/charges/*", "/", "*"] {
            assert_eq!(pattern(text).to_string(), text);
        }
        assert_eq!(pattern("/*").to_string(), "*");
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_its_fault() {
        for (text, fault) in [
            ("charges", "slash"),
            ("", "slash"),
            ("/a*", "`*`"),
            ("/*/b", "`*`"),
            ("/a?x=1", "query"),
            ("/a b", "encoded"),
            ("/caf\u{e9}", "encoded"),
            ("//a", "shorter"),
            ("/a/../b", "shorter"),
            ("/%61", "shorter"),
        ] {
            let error = text.parse::<PathPattern>().expect_err(text).to_string();
            assert!(error.contains(fault), "{text}: {error}");
        }
    }

    #[test]
    fn every_way_to_write_a_path_has_one_normal_form() {
        for path in [
            "/charges",
            "//charges",
            "/x/../charges",
            "/./charges",
            "/%63harges",
            "/%2563harges",
            "/x%2f..%2Fcharges",
            "/\\charges",
            "/%5ccharges",
            "/../charges",
            "/charges;v=1",
            "/x/..;/charges",
        ] {
            assert_eq!(normalized(path), "/charges", "{path}");
        }
        assert_eq!(normalized("/charges/"), "/charges/");
        assert_eq!(normalized("/charges/."), "/charges/");
        assert_eq!(normalized("/charges/x/.."), "/charges/");
        assert_eq!(normalized("/100%"), "/100%");
        assert_eq!(normalized("/"), "/");
    }

    #[test]
    fn a_path_climbs_if_one_way_to_read_it_does() {
        for path in [
            "/..",
            "/../v1/charges",
            "/a/../../v1",
            "/%2e%2e/v1",
            "/%252e%252e/v1",
            "/a%2fb/../../v1",
            "/a%2f..%2f..%2fv1",
            "/\\../v1",
            "/..;x/v1",
            "/;x/../v1",
            "//../v1",
        ] {
            assert!(climbs(path), "{path}");
        }
        for path in [
            "/",
            "/a/..",
            "/a/../b",
            "/a/b/../../c",
            "/.../a",
            "/a..b",
            "/a%2fb",
        ] {
            assert!(!climbs(path), "{path}");
        }
    }

    #[test]
    fn dots_are_resolved_by_the_letter() {
        for (path, expected) in [
            ("/", "/"),
            ("/charges", "/charges"),
            ("/charges/", "/charges/"),
            ("/a/../charges", "/charges"),
            ("/a%2fb/../charges", "/charges"),
            ("/x//../charges", "/x/charges"),
            ("/a/%2E%2e/charges", "/charges"),
            ("/charges/x/..", "/charges/"),
            ("/charges/.", "/charges/"),
            ("/..", "/"),
        ] {
            assert_eq!(resolved(path), expected, "{path}");
        }
    }
}
