//! Meaning of MySQL's failures: kind, code, certainty and advice.

use std::io::ErrorKind::{InvalidData, NotFound};
use std::time::Duration;

use mysql_async::{DriverError, IoError, ServerError};
use semel_core::{Code, Error, ErrorKind, connection};

use crate::driver::Refused;

/// A failure of statements; its place in the script decides its meaning.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Place of the failed statement in its script.
    pub(crate) at: usize,
    pub(crate) why: Why,
}

/// Reason why statements failed.
#[derive(Debug)]
pub(crate) enum Why {
    /// The server refused.
    Refused(ServerError),
    /// The connection broke, or its bytes made no sense.
    Broken(mysql_async::Error),
    /// No answer came in time.
    Silent(Duration),
    /// The script was never sent.
    Unsent(Error),
}

impl Failure {
    /// Returns the error where the failed statement commits, itself or as the end of its transaction: undone if the
    /// server says so, else nobody knows.
    pub(crate) fn of_commit(self) -> Error {
        let is_answered = match &self.why {
            Why::Refused(error) => is_undone(error.code),
            Why::Unsent(_) => true,
            Why::Broken(_) | Why::Silent(_) => false,
        };
        let error = self.classify();
        if is_answered {
            error.not_applied()
        } else {
            error
        }
    }

    /// Returns the error where nothing was asked to commit: the server undoes it, whatever became of the connection.
    pub(crate) fn uncommitted(self) -> Error {
        self.classify().not_applied()
    }

    /// Returns whether others were in the way, so that nothing was applied and another try may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(&self.why, Why::Refused(error) if is_passing(error.code))
    }

    /// Returns whether another session holds what was not to be waited for.
    pub(crate) fn is_held(&self) -> bool {
        matches!(&self.why, Why::Refused(error) if matches!(error.code, LOCK_WAIT | NO_WAIT))
    }

    /// Returns whether the server has undone the whole transaction for the sake of others, not the statement alone.
    pub(crate) fn is_undoing(&self) -> bool {
        matches!(&self.why, Why::Refused(error) if matches!(error.code, DEADLOCK | CHANGED_SINCE))
    }

    /// Returns whether another try is worth it after so many.
    pub(crate) fn may_pass(&self, tries: u32) -> bool {
        let most = match &self.why {
            Why::Refused(error) if error.code == LOCK_WAIT => WAITS,
            Why::Refused(_) | Why::Broken(_) | Why::Silent(_) | Why::Unsent(_) => TRIES,
        };
        self.is_passing() && tries < most
    }

    /// Returns the server's answer, if it gave one.
    pub(crate) fn refusal(&self) -> Option<&ServerError> {
        match &self.why {
            Why::Refused(error) => Some(error),
            Why::Broken(_) | Why::Silent(_) | Why::Unsent(_) => None,
        }
    }

    fn classify(self) -> Error {
        match self.why {
            Why::Refused(error) => refused(error),
            Why::Broken(error) => broken(error),
            Why::Silent(after) => Error::new(
                ErrorKind::Timeout,
                format!("MySQL gave no answer within {after:?}"),
            ),
            Why::Unsent(error) => error,
        }
    }
}

/// Returns whether others at the same rows were in the way, or a snapshot was too old: nothing was applied.
pub(crate) const fn is_passing(code: u16) -> bool {
    matches!(code, LOCK_WAIT | DEADLOCK | CHANGED_SINCE)
}

/// Returns whether an answer with this code, to a statement that commits, says that it was undone. A session that was
/// ended may have committed before it said so.
const fn is_undone(code: u16) -> bool {
    !matches!(
        code,
        1053 | 1152
            ..=1161 | 1180 | 1189 | 1190 | 1317 | 1927 | 1950 | 1969 | 3024 | 3100 | 3168 | 3169
    )
}

/// Error for a connection to `shown` that could not be opened.
pub(crate) fn not_connected(error: mysql_async::Error, shown: &str) -> Error {
    let error = match error {
        mysql_async::Error::Server(error) => refused(error),
        // A fault of a certificate comes as data that make no sense.
        mysql_async::Error::Io(IoError::Io(error)) if error.kind() == InvalidData => {
            unencrypted().with_source(error)
        }
        // Only a file can be missing: the one of `ssl-ca`.
        mysql_async::Error::Io(IoError::Io(error)) if error.kind() == NotFound => {
            misconfigured("the file that `ssl-ca` in store.url names cannot be read")
                .with_source(error)
        }
        mysql_async::Error::Io(IoError::Io(error)) => unavailable(&format!(
            "MySQL cannot be reached at {shown}: {}; check host and port in store.url, and that it runs",
            connection::of_io(&error)
        ))
        .retry_after(Duration::from_millis(500))
        .with_source(error),
        other => broken(other),
    };
    error.not_applied()
}

/// Error for a connection to `shown` that was not opened in time.
pub(crate) fn silent(shown: &str, patience: Duration) -> Error {
    unavailable(&format!(
        "MySQL cannot be reached at {shown}: no answer within {patience:?}; check host and port in \
         store.url, and that it runs"
    ))
    .not_applied()
    .retry_after(Duration::from_secs(1))
}

/// Error for a pool whose connections are all in use.
pub(crate) fn exhausted(patience: Duration) -> Error {
    unavailable(&format!(
        "all connections to MySQL are in use, and none became free within {patience:?}; raise \
         `connections` in the store's url"
    ))
    .not_applied()
    .retry_after(Duration::from_millis(200))
}

/// Error for a stored value of a producer that does not hold what it must. No backup mends it.
pub(crate) fn damaged(what: &str) -> Error {
    let message = format!(
        "the {what} in the store does not check out; go on under another name of a producer: a store that is restored \
         has given out its sequences and ids before"
    );
    Error::new(ErrorKind::Corrupt, message)
}

/// Error for a stored row that does not hold what it must.
pub(crate) fn corrupt(what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("a stored {what} does not check out; restore the store's tables from a backup"),
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

/// Returns the error of a long batch of which a part is applied.
pub(crate) fn in_part(error: Error) -> Error {
    Error::new(ErrorKind::Unavailable, "a batch was applied in part")
        .with_code(error.code())
        .with_source(error)
}

/// Error for a call whose task is gone.
pub(crate) fn gone() -> Error {
    Error::new(ErrorKind::Internal, "a call of the store panicked")
}

/// Error for a setting of the url or of the server that a person must change.
pub(crate) fn misconfigured(message: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
        .with_code(Code::StoreUnavailable)
        .not_applied()
}

/// Error for tables that are not ours to use.
pub(crate) fn foreign(message: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("{message}; name another database or `prefix` in store.url"),
    )
    .with_code(Code::StoreForeign)
    .not_applied()
}

/// Error for a server that takes no writes.
pub(crate) fn read_only(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, why)
        .with_code(Code::StoreReadOnly)
        .not_applied()
}

/// Error for a value that is too large for one packet.
pub(crate) fn too_large(bytes: usize, most: usize) -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        format!(
            "one item takes {bytes} bytes to send, and the server takes {most} at once; raise its \
             max_allowed_packet"
        ),
    )
}

/// Returns the server's own words as one line.
pub(crate) fn one_line(text: &str) -> String {
    const MOST: usize = 400;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MOST).collect()
}

/// Error for statements in a transaction of a user's own that did not run.
pub(crate) fn unrun(refused: Refused) -> Error {
    let classified = match &refused {
        Refused::Answered { code, message, .. } => answered(*code, message),
        Refused::Broken(_) => cut(),
    };
    classified.not_applied().with_source(refused)
}

/// Error for a driver that returned fewer results than there were, or more.
pub(crate) fn unanswered() -> Error {
    cut().not_applied()
}

fn refused(error: ServerError) -> Error {
    answered(error.code, &error.message).with_source(error)
}

/// Classifies MySQL's codes; the only place that knows them. An unclassified one is our bug, maybe applied.
fn answered(code: u16, message: &str) -> Error {
    let said = one_line(message);
    match code {
        LOCK_WAIT | DEADLOCK | CHANGED_SINCE => Error::new(
            ErrorKind::Throttled,
            "others were at the same records for too long; try again",
        )
        .retry_after(Duration::from_millis(100)),
        1045 | 1698 | 1130 | 1251 | 1396 | 1524 | 1820 | 1862 | 3118 | 3159 | 3955 | 4151 => {
            misconfigured(&format!(
                "MySQL refuses the user of the store's url ({said}); check user, password, host and \
                 ssl-mode"
            ))
        }
        1049 => misconfigured(&format!("{said}; create the database or correct store.url")),
        1044 | 1142 | 1143 | 1227 | 1370 => misconfigured(&format!(
            "the user of the store's url lacks a right ({said}); grant SELECT, INSERT, UPDATE and \
             DELETE on the store's tables, and CREATE to make them"
        )),
        1054 | 1146 | 1051 | 1932 => misconfigured(&format!(
            "tables of the store are missing or not as they were made ({said}); run `semel store \
             migrate` or correct store.url"
        )),
        1286 | 3161 => misconfigured(&format!(
            "the store needs the engine InnoDB, which the server does not offer ({said})"
        )),
        1665 => misconfigured(
            "the server writes its binary log by statement (binlog_format = STATEMENT), which does not \
             go with transactions that read what is committed; set ROW or MIXED",
        ),
        1290 if !said.contains("read-only") && !said.contains("read_only") => misconfigured(&said),
        1290 | 1792 | 1836 | 3032 => read_only(&format!(
            "MySQL takes no writes ({said}); name the primary in store.url"
        )),
        1021 | 1114 => unavailable("the disk under MySQL, or a table, is full; free some space")
            .with_code(Code::StoreFull)
            .retry_after(Duration::from_secs(5)),
        1040 | 1203 | 1226 => unavailable(&format!(
            "MySQL has no connection left ({said}); lower `connections` or raise max_connections"
        ))
        .retry_after(Duration::from_secs(1)),
        1129 => misconfigured(&format!("MySQL blocks this host ({said})")),
        1153 => Error::new(
            ErrorKind::InvalidInput,
            "something is too large to be sent at once; raise the server's max_allowed_packet",
        ),
        1317 | 1969 | 3024 => Error::new(
            ErrorKind::Timeout,
            format!("MySQL gave a statement up ({said})"),
        ),
        1037 | 1038 | 1041 | 1135 | 1637 => {
            unavailable(&format!("MySQL is short of resources ({said})"))
                .retry_after(Duration::from_secs(1))
        }
        1053 | 1077 | 1152 | 1158..=1161 | 1184 | 1927 | 4031 => {
            unavailable(&format!("the session was ended by MySQL ({said})"))
                .retry_after(Duration::from_millis(500))
        }
        1034 | 1194 | 1195 | 1712 | 1877 => Error::new(
            ErrorKind::Corrupt,
            format!("MySQL cannot read its own tables: {said}"),
        ),
        code => Error::new(
            ErrorKind::Internal,
            format!("MySQL refused a statement of this store: {said} ({code})"),
        ),
    }
}

/// Error for a broken connection, or for bytes on it that make no sense: not an answer of the server.
fn broken(error: mysql_async::Error) -> Error {
    let classified = match &error {
        mysql_async::Error::Io(IoError::Tls(_)) => unencrypted(),
        mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer) => misconfigured(
            "MySQL offers no encryption; set it up there, or say ssl-mode=disabled in store.url if the \
             network is trusted",
        ),
        mysql_async::Error::Driver(
            DriverError::UnknownAuthPlugin { .. }
            | DriverError::CleartextPluginDisabled
            | DriverError::MysqlOldPasswordDisabled,
        ) => misconfigured(
            "MySQL wants to authenticate the user in a way that this version does not know; use \
             caching_sha2_password or mysql_native_password",
        ),
        mysql_async::Error::Driver(DriverError::PacketTooLarge) => Error::new(
            ErrorKind::InvalidInput,
            "something is too large to be sent at once; raise the server's max_allowed_packet",
        ),
        mysql_async::Error::Io(IoError::Io(_)) | mysql_async::Error::Driver(_) => cut(),
        mysql_async::Error::Other(_)
        | mysql_async::Error::Server(_)
        | mysql_async::Error::Url(_) => {
            Error::new(ErrorKind::Internal, "the driver of MySQL failed")
        }
    };
    classified.with_source(error)
}

fn cut() -> Error {
    unavailable("the connection to MySQL broke")
}

fn unencrypted() -> Error {
    misconfigured(
        "no encrypted connection to MySQL could be made; check `ssl-mode`, `ssl-ca` and the server's \
         certificate",
    )
}

fn unavailable(message: &str) -> Error {
    Error::new(ErrorKind::Unavailable, message)
}

/// Tries of a script that others are in the way of.
pub(crate) const TRIES: u32 = 10;
/// The same, where it had to wait for a lock each time.
const WAITS: u32 = 3;
/// Code of a lock that another session has, also where nobody was to wait for it: MariaDB.
const LOCK_WAIT: u16 = 1205;
/// The same where nobody was to wait: MySQL.
const NO_WAIT: u16 = 3572;
pub(crate) const DEADLOCK: u16 = 1213;
/// Code of a row that changed since it was read: MariaDB, and clusters that certify.
const CHANGED_SINCE: u16 = 1020;
/// Code of a NULL where none may be.
pub(crate) const IS_NULL: u16 = 1048;
/// Code of several rows where one may be.
pub(crate) const SEVERAL_ROWS: u16 = 1242;
/// Code of a key that is there already.
pub(crate) const DUPLICATE: u16 = 1062;

#[cfg(test)]
mod tests {
    use semel_core::{Advice, Certainty};

    use super::*;

    fn server(code: u16, message: &str) -> ServerError {
        ServerError {
            code,
            message: message.into(),
            state: "HY000".into(),
        }
    }

    fn failure(code: u16, message: &str) -> Failure {
        Failure {
            at: 0,
            why: Why::Refused(server(code, message)),
        }
    }

    fn lost() -> Failure {
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        Failure {
            at: 0,
            why: Why::Broken(broken.into()),
        }
    }

    #[test]
    fn a_commit_is_three_valued() {
        let refused = failure(DEADLOCK, "Deadlock found").of_commit();
        assert_eq!(refused.certainty(), Certainty::NotApplied);
        for unknown in [
            lost(),
            failure(1927, "Connection was killed"),
            failure(1317, "Query execution was interrupted"),
            failure(1180, "Got error 5 during COMMIT"),
            Failure {
                at: 0,
                why: Why::Silent(Duration::from_secs(1)),
            },
        ] {
            let error = unknown.of_commit();
            assert_eq!(error.certainty(), Certainty::MaybeApplied, "{error}");
        }
        assert_eq!(lost().of_commit().advice(), Advice::LookUpFirst);
        assert_eq!(lost().uncommitted().certainty(), Certainty::NotApplied);
    }

    #[test]
    fn every_code_that_people_meet_has_its_own() {
        for (code, words, expected) in [
            (1045, "Access denied", Code::StoreUnavailable),
            (1142, "UPDATE command denied", Code::StoreUnavailable),
            (1049, "Unknown database", Code::StoreUnavailable),
            (1290, "--read-only option", Code::StoreReadOnly),
            (1114, "The table is full", Code::StoreFull),
            (1877, "Table is corrupted", Code::RecordCorrupt),
            (1317, "interrupted", Code::Timeout),
            (DEADLOCK, "Deadlock found", Code::Throttled),
            (1064, "You have an error", Code::Internal),
        ] {
            let error = failure(code, words).uncommitted();
            assert_eq!(error.code(), expected, "MySQL's code {code}");
        }
        let refused = failure(1045, "Access denied").uncommitted();
        assert_eq!(refused.advice(), Advice::Fix, "no retry mends a password");
    }
}
