//! A server's report on itself.

use std::collections::HashMap;

use redis::{Value, from_redis_value_ref};
use semel_core::Result;

use crate::config::Address;
use crate::error::{misconfigured, read_only};

/// The fields of `INFO`.
#[derive(Debug, Default)]
pub(crate) struct Info(HashMap<Box<str>, Box<str>>);

impl Info {
    pub(crate) fn read(value: &Value) -> Self {
        let text: String = from_redis_value_ref(value).unwrap_or_default();
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Self(
            fields
                .map(|(name, value)| (name.into(), value.trim().into()))
                .collect(),
        )
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| &**value)
    }

    /// Returns a short name of the server process; the same for as long as it lives.
    pub(crate) fn run(&self) -> &str {
        let run = self.get("run_id").unwrap_or("unknown0");
        run.get(..8).unwrap_or(run)
    }

    /// Refuses a server that cannot hold a store.
    pub(crate) fn check(&self, address: &Address, is_cluster: bool) -> Result<()> {
        // Valkey reports the version of Redis that it agrees with.
        let version = self.get("redis_version").unwrap_or_default();
        let major = version
            .split('.')
            .next()
            .and_then(|major| major.parse::<u32>().ok());
        if major.is_some_and(|major| major < OLDEST) {
            return Err(misconfigured(&format!(
                "Redis {version} at {address} is too old; {OLDEST}.0 or newer is needed"
            )));
        }
        let has_slots = self.get("cluster_enabled") == Some("1");
        if has_slots != is_cluster {
            return Err(misconfigured(if is_cluster {
                "Redis at store.url is no cluster; write redis:// instead of redis+cluster://"
            } else {
                "Redis at store.url is a node of a cluster; write redis+cluster://"
            }));
        }
        if !is_cluster && self.get("role") == Some("slave") {
            return Err(read_only(address));
        }
        Ok(())
    }
}

/// The major version that knows every command of the scripts.
const OLDEST: u32 = 7;
