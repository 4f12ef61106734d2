//! The server that a URL names, for traces: its host and its port, and nothing that may be a secret.

use super::secret::host_and_port;

/// Returns the host and the port of a URL, or of a `host:port` alone; nothing if it names several servers or none, or if
/// it is not certain which part of it the host is.
pub(super) fn server_of(url: &str, default_port: u16) -> Option<(String, u16)> {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    // A password may contain a character that ends an authority.
    if behind.contains('@') {
        return None;
    }
    let query = behind.split_once('?').map_or("", |(_, query)| query);
    let is_elsewhere = |pair: &str| {
        let (name, _) = pair.split_once('=').unwrap_or((pair, ""));
        ELSEWHERE.contains(&name)
    };
    if query.split('&').any(is_elsewhere) {
        return None;
    }
    let place = authority.rsplit_once('@').map_or(authority, |(_, it)| it);
    let (host, port) = host_and_port(place.trim())?;
    let port = if port.is_empty() {
        default_port
    } else {
        port.parse().ok()?
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// Returns the port of a RabbitMQ server whose URL names none.
pub(super) fn amqp_port(url: &str) -> u16 {
    if url.starts_with("amqps:") {
        5_671
    } else {
        5_672
    }
}

/// The port of a Kafka broker that names none.
pub(super) const KAFKA_PORT: u16 = 9_092;
/// The port of a NATS server whose URL names none.
pub(super) const NATS_PORT: u16 = 4_222;
/// The parameters of stores that name another server than the authority does, or more of them.
const ELSEWHERE: [&str; 4] = ["host", "hostaddr", "port", "socket"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_url_only_the_server_is_taken() {
        for (url, host, port) in [
            ("postgres://me:geheim@db:5433/shop?password=x", "db", 5_433),
            ("postgres://me:ge:h@im@db/shop", "db", 1),
            ("amqps://[::1]:81/%2f", "::1", 81),
            ("nats://token@127.0.0.1", "127.0.0.1", 1),
            ("broker.example:9092", "broker.example", 9_092),
            ("SASL_SSL://broker", "broker", 1),
        ] {
            assert_eq!(server_of(url, 1), Some((host.to_owned(), port)), "{url}");
        }
        for url in [
            "",
            "one:9092,two:9092",
            "postgres://db,other:1/x",
            "postgres://me:geheim",
            "postgres://me:ge/heim@db/x",
            "postgres://me:ge?heim@db/x",
            "postgres://me:12/heim@db/x",
            "nats://geheim/1@hub",
            "postgres://me@/x?host=/run/postgresql",
            "postgres://db/x?port=5433",
            "mysql://db/x?a=1&socket=/run/mysqld.sock",
            "redis://h h",
            "amqp://host:70000",
        ] {
            assert_eq!(server_of(url, 1), None, "{url}");
        }
    }
}
