//! Promises of the store as the servers are set up now.

use std::collections::HashMap;

use redis::Value;
use semel_core::Result;
use semel_core::port::store::{Capabilities, Durability};

use crate::config::Address;
use crate::error::{misconfigured, of_begin};
use crate::info::Info;
use crate::link::info_command;
use crate::server::{Asked, Node, Server};

/// The things that the keys hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Records,
    Producers,
}

impl Kept {
    /// Returns one text for records, and another for producers.
    const fn of(self, records: &'static str, producers: &'static str) -> &'static str {
        match self {
            Self::Records => records,
            Self::Producers => producers,
        }
    }
}

/// Reads the real settings of every server that holds a part; refuses one that evicts, unless the options allow that.
pub(crate) async fn preflight(
    server: &Server,
    allow_eviction: bool,
    kept: Kept,
) -> Result<Capabilities> {
    let mut found = Capabilities {
        kind: "redis",
        durability: Durability::PowerCut,
        shared: true,
        warnings: Vec::new(),
    };
    for node in server.nodes() {
        let report = ServerReport::by(server, &node).await?;
        let policy = report.policy().unwrap_or("unknown");
        if policy != "noeviction" {
            let why = evicting(&node.address, policy, kept);
            if !allow_eviction {
                return Err(misconfigured(&why));
            }
            found.warn(&why);
        }
        report.judge(&mut found, kept);
    }
    Ok(found)
}

/// One server's report on itself.
struct ServerReport {
    info: Info,
    /// Settings; `None` where the server does not let us ask.
    settings: Option<HashMap<String, String>>,
}

impl ServerReport {
    async fn by(server: &Server, node: &Node) -> Result<Self> {
        let info = server
            .ask_node(node, &Asked::Command(&info_command()), false)
            .await?;
        let info = Info::read(&info.map_err(of_begin)?);
        info.check(&node.address, server.is_cluster())?;
        let mut get = redis::cmd("CONFIG");
        get.arg("GET").arg("maxmemory-policy").arg("appendonly");
        get.arg("appendfsync").arg("no-appendfsync-on-rewrite");
        let settings = server.ask_node(node, &Asked::Command(&get), false).await?;
        Ok(Self {
            info,
            settings: settings.ok().as_ref().map(read),
        })
    }

    /// Returns a setting by its name, or by its name in `INFO`.
    fn get<'t>(&'t self, name: &str, in_info: &str) -> Option<&'t str> {
        let set = self
            .settings
            .as_ref()
            .and_then(|settings| settings.get(name));
        set.map(String::as_str).or_else(|| self.info.get(in_info))
    }

    fn policy(&self) -> Option<&str> {
        self.get("maxmemory-policy", "maxmemory_policy")
    }

    fn judge(&self, found: &mut Capabilities, kept: Kept) {
        let has_log = matches!(self.get("appendonly", "aof_enabled"), Some("yes" | "1"));
        let fsync = self.get("appendfsync", "-");
        match fsync {
            _ if !has_log => found.weaken(
                Durability::Process,
                "appendonly is off: when the server ends, everything since its last snapshot is forgotten",
            ),
            Some("always") => {}
            Some("everysec") => found.weaken(
                Durability::Kill,
                kept.of(
                    "appendfsync is everysec: a power cut takes the last second or two of answers, and so does a kill \
                     of the server while its disk is slow; set appendfsync to always for effects that must not happen \
                     twice",
                    "appendfsync is everysec: a power cut takes the last second or two of answers, and so does a kill \
                     of the server while its disk is slow: their sequences and ids are given out again, and readers \
                     drop the messages that come under them; set appendfsync to always",
                ),
            ),
            Some("no") => found.weaken(
                Durability::Kill,
                "appendfsync is no: a power cut takes what the system had not written by itself",
            ),
            Some(_) | None => found.weaken(
                Durability::Kill,
                "the server does not tell appendfsync (CONFIG is not allowed): a power cut may take the last \
                 answers",
            ),
        }
        if fsync == Some("always") && self.get("no-appendfsync-on-rewrite", "-") == Some("yes") {
            found.weaken(
                Durability::Kill,
                "no-appendfsync-on-rewrite is yes: a power cut takes what was answered while the log is rewritten",
            );
        }
        let replicas = self.info.get("connected_slaves").unwrap_or("0");
        if replicas != "0" {
            found.warn(
                kept.of(
                    "replicas copy later than the answer: a failover takes the last answers, and what they granted is \
                     granted again",
                    "replicas copy later than the answer: a failover takes the last answers, and their sequences and \
                     ids are given out again",
                ),
            );
        }
        if matches!(self.info.get("aof_last_write_status"), Some(status) if status != "ok") {
            found.warn("the server could not write its log the last time it tried");
        }
    }
}

trait Judged {
    fn weaken(&mut self, to: Durability, why: &str);
    fn warn(&mut self, why: &str);
}

impl Judged for Capabilities {
    fn weaken(&mut self, to: Durability, why: &str) {
        self.durability = self.durability.min(to);
        self.warn(why);
    }

    fn warn(&mut self, why: &str) {
        if !self.warnings.iter().any(|warning| **warning == *why) {
            self.warnings.push(why.into());
        }
    }
}

/// Reads the pairs of an answer.
fn read(value: &Value) -> HashMap<String, String> {
    redis::from_redis_value_ref(value).unwrap_or_default()
}

fn evicting(address: &Address, policy: &str, kept: Kept) -> String {
    let lost = kept.of(
        "records inside their window may be evicted, and their duplicates run again",
        "producers may be evicted with messages that nobody has, and their sequences and ids are given out again",
    );
    format!("maxmemory-policy of Redis at {address} is {policy}: {lost}; set it to noeviction")
}
