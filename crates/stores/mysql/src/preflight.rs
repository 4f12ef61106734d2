//! Promises of the store as the server is set up now.

use std::collections::HashMap;

use semel_core::Result;
use semel_core::port::store::{Capabilities, Durability};

use crate::answer::{some_text, text};
use crate::error::read_only;
use crate::pool::PooledConnection;
use crate::script::Script;
use crate::session::{Session, ask};

/// The relevant settings of the server, as far as it has them.
pub(crate) struct Settings(HashMap<Box<str>, Box<str>>);

impl Settings {
    pub(crate) async fn read(session: &Session, connection: &mut PooledConnection) -> Result<Self> {
        let mut script = Script::default();
        script.add(&session.texts.settings, &[]);
        let encrypted = script.add(&session.texts.encrypted, &[]);
        let sets = ask(connection, &script).await?;
        let rows = sets[0].rows.iter().chain(&sets[encrypted].rows);
        let pair = |row| Ok((some_text(row, 0)?, text(row, 1)?.unwrap_or_default().into()));
        rows.map(pair).collect::<Result<_>>().map(Self)
    }

    /// Refuses a server that takes no writes, or not from all users.
    pub(crate) fn check(&self) -> Result<()> {
        for name in ["read_only", "super_read_only", "innodb_read_only"] {
            if self.is_on(name) {
                return Err(read_only(&format!(
                    "MySQL at store.url is read-only ({name} is on), perhaps a replica; name the primary"
                )));
            }
        }
        Ok(())
    }

    /// Derives the capabilities from the settings.
    pub(crate) fn capabilities(&self, session: &Session) -> Capabilities {
        let mut found = Capabilities {
            kind: "mysql",
            durability: Durability::PowerCut,
            shared: true,
            warnings: Vec::new(),
        };
        match self.get("innodb_flush_log_at_trx_commit") {
            "1" | "3" => {}
            "2" => weaken(
                &mut found,
                Durability::Kill,
                "innodb_flush_log_at_trx_commit is 2: a power cut takes the last commits",
            ),
            _ => weaken(
                &mut found,
                Durability::Process,
                "innodb_flush_log_at_trx_commit is not 1: a crash of the server takes the last commits",
            ),
        }
        if self.is_on("log_bin") && self.get("sync_binlog") != "1" {
            weaken(
                &mut found,
                Durability::Kill,
                "sync_binlog is not 1: after a power cut, commits that are not in the binary log are undone",
            );
        }
        if matches!(self.get("innodb_flush_method"), "nosync" | "littlesync") {
            weaken(
                &mut found,
                Durability::Kill,
                "innodb_flush_method does not flush: a power cut can damage everything",
            );
        }
        if matches!(self.get("innodb_doublewrite"), "OFF" | "0" | "DETECT_ONLY") {
            weaken(
                &mut found,
                Durability::Kill,
                "innodb_doublewrite is off: a power cut can tear pages, unless the file system writes them \
                 whole",
            );
        }
        if !matches!(self.get("innodb_force_recovery"), "0" | "") {
            found
                .warnings
                .push("innodb_force_recovery is set: the server is being repaired".into());
        }
        if self.is_on("wsrep_on") {
            found.warnings.push(
                "the server is one of several that are written to (wsrep_on): let all workers use one of \
                 them, since tokens of two can cross"
                    .into(),
            );
        }
        if let Ok(bytes) = self.get("max_allowed_packet").parse::<u64>()
            && bytes < WANTED_PACKET
        {
            found.warnings.push(
                format!(
                    "max_allowed_packet is {bytes}: messages and outcomes that are larger than that cannot \
                     be kept"
                )
                .into(),
            );
        }
        if session.is_far && self.get("Ssl_cipher").is_empty() {
            found.warnings.push(
                "the connection is not encrypted, although a network lies between; say ssl-mode=required \
                 in store.url"
                    .into(),
            );
        }
        found
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value)
    }

    fn is_on(&self, name: &str) -> bool {
        !matches!(self.get(name), "" | "OFF" | "0")
    }
}

fn weaken(found: &mut Capabilities, to: Durability, why: &str) {
    found.durability = found.durability.min(to);
    found.warnings.push(why.into());
}

/// A message of the default limit, with room.
const WANTED_PACKET: u64 = 9 << 20;
