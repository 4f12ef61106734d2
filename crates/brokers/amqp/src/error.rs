//! Meaning of the broker's refusals, in one place. The fall-through is "away, try again": a source that tries again
//! loses nothing.

use std::time::Duration;

use lapin::ErrorKind as Driver;
use semel_core::{Error, ErrorKind, connection};

use crate::address::{Address, OPEN};

/// Time that a caller should wait before the next try.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// The broker's replies that mean something to us.
const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const RESOURCE_LOCKED: u16 = 405;
pub(crate) const PRECONDITION_FAILED: u16 = 406;
const NOT_ALLOWED: u16 = 530;
const NOT_IMPLEMENTED: u16 = 540;

/// The words with which RabbitMQ says, by the code of what does not exist, that it has a queue which cannot be used now:
/// its node is away, it does not answer, or its process is not up yet or has failed.
const FOUND_BUT: [&str; 4] = [
    "is down",
    "due to timeout",
    "stopped by supervisor",
    "has crashed",
];

/// Tells whether the broker has no such queue or exchange, which a person must change.
fn is_absent(words: &str) -> bool {
    !FOUND_BUT.iter().any(|reason| words.contains(reason))
}

/// Returns the code and the words of the broker, where the error is an answer of it.
pub(crate) fn said(error: &lapin::Error) -> Option<(u16, &str)> {
    match error.kind() {
        Driver::ProtocolError(error) => Some((error.get_id(), error.get_message().as_str())),
        _ => None,
    }
}

/// Returns the error for a connection that could not be opened.
pub(crate) fn of_connecting(address: &Address, error: lapin::Error) -> Error {
    let refused = |words: String| config(address, words);
    let made = match said(&error) {
        Some((ACCESS_REFUSED, _)) => refused(format!(
            "the broker at {address} refuses the user {:?}: check user and password",
            address.user()
        )),
        // A limit on connections, or a virtual host that is not up yet: neither lasts.
        Some((NOT_ALLOWED, words)) if !words.contains("limit") && !words.contains("down") => {
            let (user, vhost) = (address.user(), address.vhost());
            let words = if words.contains("not found") {
                format!(
                    "the broker at {address} has no virtual host {vhost:?}: create it, or correct the url"
                )
            } else {
                format!(
                    "the user {user:?} may not use the virtual host {vhost:?} of {address}: grant it the right"
                )
            };
            refused(words)
        }
        _ => unreached(address, &error),
    };
    made.with_source(error)
}

/// Error for an address at which nobody answers as a broker does.
fn unreached(address: &Address, error: &lapin::Error) -> Error {
    if let Some(refusal) = semel_tls::refusal(error) {
        let words = format!("the broker at {address}: {}", refusal.words);
        return if refusal.can_pass {
            away(address, words)
        } else {
            config(address, words)
        };
    }
    if !address.is_encrypted() && is_cut_off(error) {
        // It may be a balancer without a broker behind it, too.
        return away(
            address,
            format!(
                "what answers at {address} ended the connection before it spoke AMQP; if the port is for TLS, write amqps:// in the url"
            ),
        );
    }
    // Refused, unresolved, no route: in the system's words.
    let why = connection::cause(error).map(|why| format!(": {why}"));
    let why = why.unwrap_or_default();
    away(
        address,
        format!("RabbitMQ cannot be reached at {address}{why}"),
    )
}

/// Returns whether something answered that is no broker: it sent something else, or hung up.
fn is_cut_off(error: &lapin::Error) -> bool {
    match error.kind() {
        Driver::ParsingError(_) => true,
        Driver::IOError(error) => matches!(
            error.kind(),
            std::io::ErrorKind::ConnectionReset
                | std::io::ErrorKind::ConnectionAborted
                | std::io::ErrorKind::UnexpectedEof
                | std::io::ErrorKind::BrokenPipe
        ),
        _ => false,
    }
}

/// Returns the error for a queue that cannot be consumed, or no longer.
pub(crate) fn of_queue(address: &Address, queue: &str, error: lapin::Error) -> Error {
    let vhost = address.vhost();
    let made = match said(&error) {
        Some((NOT_FOUND, words)) if is_absent(words) => config(
            address,
            format!(
                "the queue {queue:?} does not exist in the virtual host {vhost:?} of {address}: declare it, or correct its name"
            ),
        ),
        Some((ACCESS_REFUSED, words)) if words.contains("exclusive") => away(
            address,
            format!("another consumer has the queue {queue:?} to itself"),
        ),
        Some((ACCESS_REFUSED, _)) => config(
            address,
            format!(
                "the user {:?} may not read the queue {queue:?} of {address}: grant it the right",
                address.user()
            ),
        ),
        Some((RESOURCE_LOCKED, _)) => config(
            address,
            format!(
                "the queue {queue:?} belongs to another connection: declare it without `exclusive`"
            ),
        ),
        Some((NOT_IMPLEMENTED, _)) => config(
            address,
            format!("the queue {queue:?} cannot be consumed like this"),
        ),
        Some((PRECONDITION_FAILED, words)) if words.contains("timed out") => away(
            address,
            format!(
                "the broker took back what was not acknowledged within the consumer timeout of the queue {queue:?}: raise it, or shorten the work"
            ),
        ),
        _ => away(
            address,
            format!("the broker at {address} ended the delivery of the queue {queue:?}"),
        ),
    };
    made.with_source(error)
}

/// Returns the error for an exchange to which nothing can be published.
pub(crate) fn of_exchange(address: &Address, exchange: &str, error: lapin::Error) -> Error {
    let made = match said(&error) {
        Some((NOT_FOUND, words)) if is_absent(words) => config(
            address,
            format!(
                "the exchange {exchange:?} does not exist in the virtual host {:?} of {address}: declare it, or correct its name",
                address.vhost()
            ),
        ),
        Some((ACCESS_REFUSED, _)) => config(
            address,
            format!(
                "the user {:?} may not write to the exchange {exchange:?} of {address}: grant it the right",
                address.user()
            ),
        ),
        Some((NOT_IMPLEMENTED, _)) => config(
            address,
            format!("the exchange {exchange:?} cannot be published to like this"),
        ),
        _ => away(address, format!("RabbitMQ cannot be reached at {address}")),
    };
    made.with_source(error)
}

/// Error for a broker that does not answer.
pub(crate) fn silent(address: &Address) -> Error {
    let patience = OPEN.as_secs();
    let words = format!("RabbitMQ cannot be reached at {address}: no answer within {patience} s");
    away(address, words)
}

/// Error that passes after a while; nothing was done.
pub(crate) fn away(address: &Address, words: String) -> Error {
    Error::new(ErrorKind::Unavailable, words)
        .with_code(address.code)
        .not_applied()
        .retry_after(RETRY)
}

/// Error that stays until a person changes something.
pub(crate) fn config(address: &Address, words: String) -> Error {
    Error::new(ErrorKind::InvalidConfig, words).with_code(address.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_whose_process_is_away_is_there() {
        assert!(is_absent("NOT_FOUND - no queue 'charges' in vhost '/'"));
        assert!(is_absent("NOT_FOUND - no exchange 'payments' in vhost '/'"));
        for reason in [
            "home node 'a@b' of durable queue 'charges' in vhost '/' is down or inaccessible",
            "failed to perform operation on queue 'charges' in vhost '/' due to timeout",
            "queue 'charges' in vhost '/' process is stopped by supervisor",
            "queue 'charges' in vhost '/' has crashed and failed to restart",
        ] {
            assert!(!is_absent(&format!("NOT_FOUND - {reason}")), "{reason}");
        }
    }
}
