//! URLs as they may be shown: every part that may be a secret is `***`.

use semel_worker::effect::http;

/// Returns a word with `***` for the secrets of a URL in it. In a store's URL the user, the host, the database
/// and harmless parameters stay, so that people recognise the store; in any other URL the user and the query
/// are left out as a whole.
pub fn masked(word: &str) -> String {
    let Some(at) = word.find("://") else {
        return word.to_owned();
    };
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let before = &word[..at];
    let start = before.rfind(|c| !is_part(c)).map_or(0, |last| {
        last + before[last..].chars().next().map_or(1, char::len_utf8)
    });
    let url = &word[start..];
    if STORES.contains(&&word[start..at]) {
        format!("{}{}", &word[..start], of_store(url))
    } else {
        format!("{}{}", &word[..start], http::masked(url))
    }
}

fn of_store(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    // A password may contain a character that ends an authority; then the place of the authority is unknown.
    if behind.contains('@') {
        return format!("{scheme}://***");
    }
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, authority),
    };
    let mut shown = format!("{scheme}://");
    match user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
        // Some people write Redis's password in place of the user.
        Some((user, "")) if scheme.starts_with("redis") && !user.is_empty() => shown += "***@",
        Some((user, "")) => shown.extend([user, "@"]),
        Some((user, _)) => shown.extend([user, ":***@"]),
        None => {}
    }
    let is_plain = hosts.split(',').all(is_host);
    shown += if is_plain { hosts } else { "***" };
    let (behind, fragment) = behind.split_once('#').unwrap_or((behind, ""));
    let (path, query) = behind.split_once('?').unwrap_or((behind, ""));
    shown += path;
    for (index, pair) in query.split('&').enumerate() {
        if query.is_empty() {
            break;
        }
        shown.push(if index == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, _)) if HARMLESS.contains(&name) => shown += pair,
            Some((name, _)) => shown.extend([name, "=***"]),
            None => shown += if pair.is_empty() { "" } else { "***" },
        }
    }
    if !fragment.is_empty() {
        shown += "#***";
    }
    shown
}

fn is_host(host: &str) -> bool {
    host_and_port(host).is_some()
}

/// Takes apart `name`, `name:5432`, `[::1]:5432`, or nothing at all; refuses any other text.
pub(super) fn host_and_port(host: &str) -> Option<(&str, &str)> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        Some(_) | None => (host, ""),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._%".contains(c);
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let is_sound = match address {
        Some(address) => address.split(':').all(|part| part.chars().all(is_name)),
        None => name.chars().all(is_name),
    };
    let is_port = port.chars().all(|c| c.is_ascii_digit());
    (is_sound && is_port).then_some((address.unwrap_or(name), port))
}

/// The schemes of the URLs of stores on servers.
const STORES: &[&str] = &[
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
    "redis",
    "rediss",
    "redis+cluster",
    "rediss+cluster",
];

/// Parameters that hold no secret.
const HARMLESS: &[&str] = &[
    "application_name",
    "ca",
    "channel_binding",
    "cluster",
    "connect_timeout",
    "connections",
    "db",
    "dbname",
    "host",
    "keepalives",
    "keepalives_idle",
    "load_balance_hosts",
    "port",
    "prefix",
    "protocol",
    "schema",
    "socket",
    "sslmode",
    "sslrootcert",
    "ssl-ca",
    "ssl-mode",
    "target_session_attrs",
    "user",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_store_everything_but_secrets_is_shown() {
        for (url, shown) in [
            (
                "postgres://me:geheim@db:5432/shop?schema=a&password=geheim&x",
                "postgres://me:***@db:5432/shop?schema=a&password=***&***",
            ),
            ("postgres://me@db/shop", "postgres://me@db/shop"),
            ("postgresql://db,other:1/x?", "postgresql://db,other:1/x"),
            ("mysql://me:@[::1]:3306/x", "mysql://me@[::1]:3306/x"),
            ("redis://:geheim@db/0#geheim", "redis://:***@db/0#***"),
            ("rediss://geheim@db/0", "rediss://***@db/0"),
            // It is impossible to tell which part of these is secret.
            ("postgres://me:ge/heim@db/x", "postgres://***"),
            ("postgres://me:ge?heim@db/x", "postgres://***"),
            ("postgres://db/x?password=ge@heim", "postgres://***"),
            ("postgres://me:geheim", "postgres://***"),
            ("postgres://me:ge:h@im@db/x", "postgres://me:***@db/x"),
        ] {
            assert_eq!(masked(url), shown);
            assert_eq!(masked(shown), shown, "twice is once");
        }
    }

    #[test]
    fn of_another_url_user_and_query_are_left_out() {
        assert_eq!(
            masked("https://me:geheim@h/p?a=geheim"),
            "https://***@h/p?a=***"
        );
        assert_eq!(masked("--to=http://geheim@h"), "--to=http://***@h");
        assert_eq!(
            masked("é:postgres://me:geheim@h/x"),
            "é:postgres://me:***@h/x"
        );
        assert_eq!(masked("no url: here"), "no url: here");
    }
}
