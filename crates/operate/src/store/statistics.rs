//! The contents of a store in numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use semel_core::port::store::{Capabilities, Durability, ListQuery, Stats, Store};
use semel_core::{AnyStore, Audited, Parked, Result};
use serde::{Deserialize, Serialize};

use crate::paging::for_each_page;

/// The facts about a store that its statistics are made of.
#[derive(Clone, Debug)]
pub struct Holdings {
    /// Its url, as it may be shown.
    pub url: String,
    /// The weaknesses that the configuration accepts.
    pub accepted: Vec<&'static str>,
    /// Its promises.
    pub capabilities: Capabilities,
    /// Its own counts.
    pub stats: Stats,
    /// The messages that are set aside, by reason.
    pub parked: BTreeMap<Box<str>, u64>,
    /// The entries of the audit trail.
    pub audited: u64,
}

impl Holdings {
    /// Asks a store, and counts the messages and the entries of the audit trail that it holds.
    ///
    /// # Cost
    ///
    /// Goes through all messages and the whole audit trail, a page at a time.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn of(store: &AnyStore, url: String, accepted: Vec<&'static str>) -> Result<Self> {
        let (capabilities, stats) = (store.preflight().await?, store.stats().await?);
        let (mut parked, mut audited) = (BTreeMap::new(), 0);
        for_each_page(store, ListQuery::default(), |messages: Vec<Parked>| {
            for message in messages {
                *parked.entry(message.reason).or_default() += 1;
            }
            Ok(ControlFlow::Continue(()))
        })
        .await?;
        for_each_page(store, ListQuery::default(), |entries: Vec<Audited>| {
            audited += entries.len() as u64;
            Ok(ControlFlow::Continue(()))
        })
        .await?;
        Ok(Self {
            url,
            accepted,
            capabilities,
            stats,
            parked,
            audited,
        })
    }
}

/// The contents and promises of a store; in JSON an object whose members are stable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Statistics<'a> {
    /// Its url, as it may be shown.
    pub url: Cow<'a, str>,
    /// Its kind.
    pub kind: Cow<'static, str>,
    /// The accident that its answers survive.
    pub durability: Cow<'static, str>,
    /// True if several processes can use it at once.
    pub shared: bool,
    /// The weaknesses of the store that the configuration accepts.
    pub accepted: Vec<Cow<'static, str>>,
    /// Its warnings.
    pub warnings: Cow<'a, [Box<str>]>,
    /// Its records.
    pub records: Records,
    /// The messages that are set aside, by reason.
    pub parked: Cow<'a, BTreeMap<Box<str>, u64>>,
    /// The entries of the audit trail.
    pub audit_entries: u64,
    /// Its size; none if it does not tell.
    pub disk_bytes: Option<u64>,
    /// Entities whose version is remembered for good.
    pub entities: u64,
    /// Records that have passed their window and are not swept yet; none if the store cannot tell.
    pub remembered: Option<u64>,
}

/// Records by state.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Records {
    /// All of them.
    pub total: u64,
    /// Those that are claimed.
    pub claimed: u64,
    /// Those whose effect has begun.
    pub started: u64,
    /// Those that wait for another attempt.
    pub released: u64,
    /// Those that are done.
    pub completed: u64,
    /// Those that were given up.
    pub dead: u64,
    /// Those of which nobody knows whether the effect happened.
    pub in_doubt: u64,
}

impl<'a> Statistics<'a> {
    /// Lays out the facts.
    pub fn of(holdings: &'a Holdings) -> Self {
        let [claimed, started, released, completed, dead, in_doubt] = holdings.stats.records;
        Self {
            url: holdings.url.as_str().into(),
            kind: holdings.capabilities.kind.into(),
            durability: durability(holdings.capabilities.durability).into(),
            shared: holdings.capabilities.shared,
            accepted: holdings.accepted.iter().map(|it| (*it).into()).collect(),
            warnings: Cow::Borrowed(&holdings.capabilities.warnings),
            records: Records {
                total: holdings.stats.records.iter().sum(),
                claimed,
                started,
                released,
                completed,
                dead,
                in_doubt,
            },
            parked: Cow::Borrowed(&holdings.parked),
            audit_entries: holdings.audited,
            disk_bytes: holdings.stats.disk_bytes,
            entities: holdings.stats.entities,
            remembered: holdings.stats.remembered,
        }
    }
}

const fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Process => "nothing",
        Durability::Kill => "kill",
        Durability::PowerCut => "power_cut",
        Durability::NodeLoss => "node_loss",
    }
}
