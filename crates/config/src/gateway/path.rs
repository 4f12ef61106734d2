//! The paths of routes: one path, all below a path, or all.

/// The path that matches every request.
pub(super) const ALL: &str = "*";

/// Checks the path of a route.
pub(super) fn check(text: &str) -> Result<Box<str>, String> {
    let bare = text.strip_suffix("/*").unwrap_or(text);
    let is_all = text == ALL || text == "/*";
    let is_path = bare.starts_with('/') || bare.is_empty();
    if is_all {
        return Ok(ALL.into());
    }
    if is_path && !text.is_empty() && bare.bytes().all(is_plain) {
        if is_shortest(text) {
            return Ok(text.into());
        }
        return Err(format!(
            "`{text}` can be written in a shorter way, without `//`, `..`, `;` and `%`; a request is refused whose path is not"
        ));
    }
    Err(format!(
        "`{text}` is no path of a route; write `/charges`, `/charges/*` for all below it, or `*` for every path"
    ))
}

/// Tells whether no server reads a path as another one: without empty parts, dots, what is decoded, and
/// what follows a `;`.
pub(super) fn is_shortest(path: &str) -> bool {
    let bytes = path.as_bytes();
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let mut escapes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    let is_decoded = escapes.any(|(at, _)| is_hex(bytes.get(at + 1)) && is_hex(bytes.get(at + 2)));
    let has_dots = path.split('/').any(|part| matches!(part, "." | ".."));
    !is_decoded && !has_dots && !path.contains("//") && !path.contains(['\\', ';'])
}

/// Tells whether a byte can be in a path that is compared byte for byte.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'*' | b'?' | b'#')
}

/// Tells whether every path that `other` matches is one of those that `path` matches.
pub(super) fn covers(path: &str, other: &str) -> bool {
    if path == ALL {
        return true;
    }
    match path.strip_suffix('*') {
        Some(before) => other.starts_with(before),
        None => path == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_or_all_below_it_or_all() {
        for (text, path) in [
            ("/charges", "/charges"),
            ("/charges/*", "/charges/*"),
            ("/a/100%", "/a/100%"),
            ("/", "/"),
            ("*", "*"),
            ("/*", "*"),
        ] {
            assert_eq!(check(text).as_deref(), Ok(path));
        }
        for text in [
            "", "charges", "/a*", "/*/b", "/a/*/b", "/a?b", "/a#b", "/a b", "/ü", "//a", "/a//*",
            "/a/../b", "/.", "/%61", "/a\\b", "/a;b", "/a;b/*",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_covers_those_it_matches() {
        for (path, other, expected) in [
            ("*", "/charges", true),
            ("*", "*", true),
            ("/charges/*", "/charges/1", true),
            ("/charges/*", "/charges/a/*", true),
            ("/charges/*", "/charges", false),
            ("/charges/*", "/charges2/*", false),
            ("/charges", "/charges", true),
            ("/charges", "/charges/*", false),
            ("/charges/*", "*", false),
        ] {
            assert_eq!(covers(path, other), expected, "{path} {other}");
        }
    }
}
