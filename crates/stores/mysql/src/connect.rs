//! Opening a connection: encryption, settings of the session, and a check that the server is one that we know.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql_async::{Conn, DriverError, OptsBuilder, SslOpts};
use semel_core::{Error, ErrorKind, Result};

use crate::answer::{only, some_number, some_text};
use crate::config::{Address, Encryption};
use crate::error::{Failure, misconfigured, not_connected, silent};
use crate::run::run;
use crate::script::{Literal, Script};
use crate::sql::Texts;

/// Recipe for a connection.
pub(crate) struct Connector {
    server: OptsBuilder,
    /// Address to show to people.
    shown: Box<str>,
    encryption: Encryption,
    ssl: SslOpts,
    patience: Duration,
    lock_wait: Duration,
    /// The longest time that a transaction stands still, where the server can end it.
    idle: Duration,
    /// Set if the server offers no encryption, and none is demanded.
    is_plain: AtomicBool,
}

/// A connection that is ready for statements.
pub(crate) struct Ready {
    pub(crate) conn: Conn,
    /// Bytes that may be sent at once.
    pub(crate) most_bytes: usize,
}

impl Connector {
    pub(crate) fn new(
        address: &Address,
        patience: Duration,
        lock_wait: Duration,
        idle: Duration,
    ) -> Self {
        Self {
            server: address.server.clone(),
            shown: address.shown.clone(),
            encryption: address.encryption,
            ssl: ssl(address.encryption, address.root_cert.as_deref()),
            patience,
            lock_wait,
            idle,
            is_plain: AtomicBool::new(address.encryption == Encryption::Disabled),
        }
    }

    /// Connects, within the configured patience.
    pub(crate) async fn connect(&self, texts: &Texts) -> Result<Ready> {
        let connected = tokio::time::timeout(self.patience, self.connect_and_set(texts)).await;
        connected.unwrap_or_else(|_| Err(silent(&self.shown, self.patience)))
    }

    async fn connect_and_set(&self, texts: &Texts) -> Result<Ready> {
        let mut conn = self.open().await?;
        let mut script = Script::default();
        let [lock_wait, idle] =
            [self.lock_wait, self.idle].map(|it| Literal::number(it.as_secs().max(1)));
        script.add(&texts.session, &[&lock_wait, &idle]);
        let server = script.add(&texts.server, &[]);
        let sets = run(&mut conn, &script)
            .await
            .map_err(Failure::uncommitted)?;
        let row = only(&sets[server])?;
        check_version(&some_text(row, 0)?)?;
        let most_bytes = usize::try_from(some_number(row, 1)?).unwrap_or(usize::MAX);
        if some_number(row, 2)? != 1 {
            let mut script = Script::default();
            script.add(&texts.increment, &[]);
            // Blocks of tokens follow each other, whatever the server's steps for other counters are.
            run(&mut conn, &script).await.map_err(|failure| {
                misconfigured(
                    "the server counts in steps (auto_increment_increment), as one of several that are \
                     written to; fencing tokens need one that counts by one",
                )
                .with_source(failure.uncommitted())
            })?;
        }
        Ok(Ready { conn, most_bytes })
    }

    async fn open(&self) -> Result<Conn> {
        let refused = |error| not_connected(error, &self.shown);
        if self.is_plain.load(Ordering::Relaxed) {
            return Conn::new(self.server.clone()).await.map_err(refused);
        }
        match Conn::new(self.server.clone().ssl_opts(self.ssl.clone())).await {
            Err(mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer))
                if self.encryption == Encryption::Preferred =>
            {
                self.is_plain.store(true, Ordering::Relaxed);
                Conn::new(self.server.clone()).await.map_err(refused)
            }
            opened => opened.map_err(refused),
        }
    }
}

fn ssl(encryption: Encryption, root_cert: Option<&Path>) -> SslOpts {
    let is_checked = matches!(
        encryption,
        Encryption::VerifyCa | Encryption::VerifyIdentity
    );
    let ssl = SslOpts::default()
        .with_danger_accept_invalid_certs(!is_checked)
        .with_danger_skip_domain_validation(encryption != Encryption::VerifyIdentity);
    match root_cert {
        Some(path) if is_checked => ssl
            .with_disable_built_in_roots(true)
            .with_root_certs(vec![path.to_owned().into()]),
        Some(_) | None => ssl,
    }
}

/// Refuses servers that are too old, and those that speak the protocol without being MySQL or MariaDB.
fn check_version(text: &str) -> Result<()> {
    let is_mariadb = text.contains("MariaDB");
    let number = text.strip_prefix("5.5.5-").unwrap_or(text);
    let mut parts = number.split(|letter: char| !letter.is_ascii_digit());
    let mut part = || parts.next().and_then(|part| part.parse::<u32>().ok());
    let version = (part().unwrap_or(0), part().unwrap_or(0));
    let unfit = |why: &str| {
        let message = format!("the server is {text}; {why}");
        Err(Error::new(ErrorKind::Unsupported, message))
    };
    if text.contains("TiDB") || text.contains("Vitess") {
        return unfit("it counts on several machines, so that fencing tokens would not rise");
    }
    if (is_mariadb && version < (10, 5)) || (!is_mariadb && version < (8, 0)) {
        return unfit("MySQL 8.0 or MariaDB 10.5 is the oldest that is supported");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_are_too_old_or_of_another_kind_are_refused() {
        for (version, is_fit) in [
            ("8.0.36", true),
            ("8.4.3-commercial", true),
            ("9.1.0", true),
            ("10.11.19-MariaDB-0+deb12u1", true),
            ("5.5.5-10.6.12-MariaDB", true),
            ("11.4.2-MariaDB", true),
            ("5.7.44-log", false),
            ("10.4.34-MariaDB", false),
            ("8.0.11-TiDB-v7.5.0", false),
            ("8.0.30-Vitess", false),
        ] {
            assert_eq!(check_version(version).is_ok(), is_fit, "{version}");
        }
    }
}
