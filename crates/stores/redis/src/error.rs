//! Meaning of Redis's failures: kind, code, certainty and advice.

use std::time::Duration;

use redis::{ErrorKind as Theirs, RedisError, ServerErrorKind};
use semel_core::{Code, Error, ErrorKind, connection};

use crate::config::Address;

/// Error for a failure of a call that was sent. An error that the server answers before it runs a script, or in the
/// place of its first write, says that nothing was applied; any other says nothing.
pub(crate) fn of_call(error: RedisError) -> Error {
    let is_undone = UNDONE.contains(&error.code().unwrap_or_default());
    let error = classify(error);
    if is_undone {
        error.not_applied()
    } else {
        error
    }
}

/// Error for a failure of a call that changes only the store's own beginning, which can be repeated.
pub(crate) fn of_begin(error: RedisError) -> Error {
    if is_lacking(&error) {
        return misconfigured(&lacking(&error)).with_source(error);
    }
    classify(error).not_applied()
}

/// Error for a connection that could not be opened.
pub(crate) fn not_connected(error: RedisError, address: &Address) -> Error {
    let classified = match error.kind() {
        Theirs::AuthenticationFailed => refused_login(address),
        // `redis` reports some refusals of a login as an unexpected answer.
        Theirs::UnexpectedReturnType | Theirs::Server(ServerErrorKind::ResponseError) => {
            match error.detail() {
                Some(detail) if detail.contains("DB index") => misconfigured(
                    "Redis has no database of that number; correct the path of store.url",
                ),
                _ => classify(error.clone()),
            }
        }
        _ if error.code() == Some("NOAUTH") || error.code() == Some("WRONGPASS") => {
            refused_login(address)
        }
        Theirs::Io | Theirs::Parse => Error::new(
            ErrorKind::Unavailable,
            format!(
                "Redis at {address} does not answer as Redis does; check host and port, and whether it wants \
                 TLS (rediss://) or does not"
            ),
        ),
        _ => classify(error.clone()),
    };
    let classified = if classified.kind() == ErrorKind::Unavailable {
        classified.retry_after(Duration::from_millis(500))
    } else {
        classified
    };
    classified.not_applied().with_source(error)
}

/// Error for an address that nobody listens on, or whose network path is cut.
pub(crate) fn unreachable(error: std::io::Error, address: &Address) -> Error {
    unavailable(&format!(
        "Redis cannot be reached at {address}: {}; check host and port, and that it runs",
        connection::of_io(&error)
    ))
    .not_applied()
    .retry_after(Duration::from_millis(500))
    .with_source(error)
}

/// Error for a TLS handshake that failed.
pub(crate) fn no_tls(error: std::io::Error, address: &Address) -> Error {
    misconfigured(&format!(
        "Redis cannot be reached at {address}: TLS: {}; check that this is its TLS port, its certificate, and \
         `ca` in store.url",
        connection::of_io(&error)
    ))
    .with_source(error)
}

/// Error for a connection that was not opened in time.
pub(crate) fn slow(address: &Address, patience: Duration, is_encrypted: bool) -> Error {
    let tls = if is_encrypted {
        "that this is its TLS port"
    } else {
        "whether it wants TLS (rediss://)"
    };
    unavailable(&format!(
        "Redis cannot be reached at {address}: no answer within {patience:?}; check that it runs, and {tls}"
    ))
    .not_applied()
    .retry_after(Duration::from_secs(1))
}

/// Error for a replica, or a primary that takes no writes.
pub(crate) fn read_only(address: &Address) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "Redis at {address} is a replica and takes no writes; name the primary in store.url"
        ),
    )
    .with_code(Code::StoreReadOnly)
    .not_applied()
    .retry_after(Duration::from_millis(500))
}

/// Error for a stored value of a producer that does not hold what it must. No backup mends it.
pub(crate) fn damaged(what: &str) -> Error {
    let message = format!(
        "the {what} in the store does not check out; go on under another name of a producer: a store that is restored \
         has given out its sequences and ids before"
    );
    Error::new(ErrorKind::Corrupt, message)
}

/// Error for a stored value that does not hold what it must.
pub(crate) fn corrupt(what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("a stored {what} does not check out; restore the server's data from a backup"),
    )
}

/// Error for an answer that no script of this store gives.
pub(crate) fn strange() -> Error {
    Error::new(
        ErrorKind::Internal,
        "a script of this store was answered with something else",
    )
}

/// Error for a key at which too many others were writing.
pub(crate) fn contended() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "others kept changing the same record; try again",
    )
    .retry_after(Duration::from_millis(100))
}

/// Error for a call whose task is gone.
pub(crate) fn gone() -> Error {
    Error::new(ErrorKind::Internal, "a call of the store panicked")
}

/// Error for a version gate on a cluster.
pub(crate) fn ungated() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "a Redis cluster cannot change a record and its entity together, so it takes no entity and version; \
         use a single Redis server or another store",
    )
}

/// Error for a cursor that another list made.
pub(crate) fn foreign_cursor() -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        "the cursor is not one of this list",
    )
}

/// Error for a setting of the url or of the server that a person must change.
pub(crate) fn misconfigured(message: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
        .with_code(Code::StoreUnavailable)
        .not_applied()
}

/// Error for keys that belong to another program.
pub(crate) fn foreign(prefix: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "keys that begin with `{prefix}` are not Semel's; name another prefix in store.url"
        ),
    )
    .with_code(Code::StoreForeign)
    .not_applied()
}

/// Classifies Redis's answers; the only place that knows them. An unclassified one is our bug, maybe applied.
fn classify(error: RedisError) -> Error {
    let classified = if let Some(classified) = classified_answer(&error) {
        classified
    } else if matches!(error.kind(), Theirs::Server(_) | Theirs::Extension) {
        Error::new(
            ErrorKind::Internal,
            format!("Redis refused a script of this store: {}", said(&error)),
        )
    } else if error.is_timeout() {
        Error::new(ErrorKind::Timeout, "Redis gave no answer in time")
    } else if matches!(error.kind(), Theirs::Io | Theirs::Parse) || error.is_connection_dropped() {
        // An answer that ends in the middle cannot be read, nor can anything behind it.
        unavailable("the connection to Redis broke")
    } else {
        Error::new(ErrorKind::Internal, "the Redis driver failed")
    };
    classified.with_source(error)
}

/// Classifies the server's own words.
fn classified_answer(error: &RedisError) -> Option<Error> {
    let code = error.code().unwrap_or_default();
    let text = said(error);
    Some(match code {
        "OOM" => unavailable("Redis is out of memory (maxmemory); raise it or free some")
            .with_code(Code::StoreFull)
            .retry_after(Duration::from_secs(5)),
        "MISCONF" if text.contains("space") => {
            unavailable("the disk under Redis is full; free some space")
                .with_code(Code::StoreFull)
                .retry_after(Duration::from_secs(5))
        }
        "MISCONF" => unavailable(&format!("Redis cannot write its log or snapshot: {text}"))
            .retry_after(Duration::from_secs(1)),
        "READONLY" => {
            unavailable("Redis is a replica now and takes no writes; name the primary in store.url")
                .with_code(Code::StoreReadOnly)
                .retry_after(Duration::from_millis(500))
        }
        "NOREPLICAS" => unavailable("Redis has fewer replicas than min-replicas-to-write asks for")
            .retry_after(Duration::from_secs(1)),
        "LOADING" => unavailable("Redis is loading its data; try again")
            .retry_after(Duration::from_millis(500)),
        "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK" => unavailable(&format!(
            "the Redis cluster is busy with itself ({code}); try again"
        ))
        .retry_after(Duration::from_millis(500)),
        "BUSY" => unavailable("Redis is busy with somebody's script; try again")
            .retry_after(Duration::from_millis(500)),
        "NOAUTH" | "WRONGPASS" => misconfigured("Redis refuses the user or password of store.url"),
        "WRONGTYPE" => Error::new(
            ErrorKind::Unavailable,
            "a key of the store holds something of another kind; name another prefix in store.url",
        )
        .with_code(Code::StoreForeign),
        _ if is_lacking(error) => unavailable(&lacking(error)),
        _ if text.contains("unknown command") || text.contains("Unknown Redis command") => {
            misconfigured(&format!(
                "Redis lacks a command that the store needs ({text}); 7.0 or newer is needed"
            ))
        }
        _ => return None,
    })
}

fn is_lacking(error: &RedisError) -> bool {
    let text = said(error);
    error.code() == Some("NOPERM")
        || text.contains("ACL failure")
        || text.contains("can't run this command")
}

fn lacking(error: &RedisError) -> String {
    format!(
        "the user of store.url lacks a right ({}); docs/spec/redis.md names the rights that are needed",
        said(error)
    )
}

fn refused_login(address: &Address) -> Error {
    misconfigured(&format!(
        "Redis at {address} refuses the user or password of store.url, or wants one; correct it there"
    ))
}

fn unavailable(message: &str) -> Error {
    Error::new(ErrorKind::Unavailable, message)
}

/// Returns the server's own words as one line, without the place in the script.
fn said(error: &RedisError) -> String {
    const MOST: usize = 200;
    let words = error.detail().unwrap_or_default();
    let words = words.split(" script: ").next().unwrap_or_default();
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MOST).collect()
}

/// Errors that a server returns before it runs a script, or in the place of its first write.
const UNDONE: [&str; 13] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "WRONGPASS",
];
