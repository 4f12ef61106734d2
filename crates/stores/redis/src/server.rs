//! The server or the cluster: finds the node that serves a bucket, and asks it.
//!
//! A cluster's redirections are followed here, because a node that answers with one has done nothing. Nothing else is
//! ever sent twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use redis::{Cmd, RedisError, Value};
use semel_core::{Error, Result};

use crate::config::Address;
use crate::error::{misconfigured, of_call};
use crate::link::{Link, Live, Settings};
use crate::script::Call;
use crate::slots::{Slots, slots_command};

/// The recipient of calls.
pub(crate) struct Server {
    settings: Settings,
    /// Addresses at which a cluster may be asked about itself; the one server otherwise.
    seeds: Vec<Address>,
    links: usize,
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
    slots: RwLock<Arc<Slots>>,
}

/// One server process, and the connections to it.
pub(crate) struct Node {
    pub(crate) address: Address,
    links: Vec<Link>,
    next: AtomicUsize,
}

/// A request: a script, or a command that changes nothing or can be repeated.
pub(crate) enum Asked<'c> {
    Script(&'c Call<'c>),
    Command(&'c Cmd),
}

impl Server {
    pub(crate) fn new(settings: Settings, seeds: Vec<Address>, links: usize) -> Self {
        Self {
            settings,
            seeds,
            links: links.max(1),
            nodes: Mutex::default(),
            slots: RwLock::default(),
        }
    }

    pub(crate) const fn is_cluster(&self) -> bool {
        self.settings.is_cluster
    }

    /// Learns which node serves which slots, where there are several.
    pub(crate) async fn discover(&self) -> Result<()> {
        if !self.is_cluster() {
            return Ok(());
        }
        let mut failure = None;
        let known = self.slots().nodes();
        for address in self.seeds.iter().chain(&known) {
            match self.slots_told_by(address).await {
                Ok(slots) => {
                    *self.slots.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(slots);
                    return Ok(());
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| misconfigured("store.url names no node of a cluster")))
    }

    /// Returns every node that serves something.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        if !self.is_cluster() {
            return self
                .seeds
                .iter()
                .map(|address| self.node(address))
                .collect();
        }
        let addresses = self.slots().nodes();
        addresses.iter().map(|address| self.node(address)).collect()
    }

    /// Asks the node that serves the slot.
    pub(crate) async fn ask(&self, slot: u16, asked: Asked<'_>) -> Result<Value> {
        self.ask_raw(slot, &asked).await?.map_err(of_call)
    }

    /// Does the same, with the failure as the driver reports it.
    pub(crate) async fn ask_raw(
        &self,
        slot: u16,
        asked: &Asked<'_>,
    ) -> Result<Result<Value, RedisError>> {
        let mut waited = Duration::ZERO;
        let mut moving: Option<Address> = None;
        let mut turns = 0;
        loop {
            let node = match &moving {
                Some(address) => self.node(address),
                None => self.serving(slot).await?,
            };
            let answer = self.ask_node(&node, asked, moving.take().is_some()).await?;
            let Err(error) = answer else {
                return Ok(answer);
            };
            let code = error.code().unwrap_or_default();
            if code == "READONLY" {
                node.let_go();
            }
            if !self.is_cluster() || turns == TURNS || waited > self.settings.patience {
                return Ok(Err(error));
            }
            turns += 1;
            match code {
                "MOVED" => self.learn(&error).await?,
                "ASK" => moving = error.redirect_node().and_then(|(node, _)| address_of(node)),
                "READONLY" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" => {
                    tokio::time::sleep(PAUSE).await;
                    waited += PAUSE;
                    self.discover().await?;
                }
                _ => return Ok(Err(error)),
            }
        }
    }

    /// Asks one node. `Err` means that the request was surely not sent.
    pub(crate) async fn ask_node(
        &self,
        node: &Node,
        asked: &Asked<'_>,
        is_moving: bool,
    ) -> Result<Result<Value, RedisError>> {
        let (link, live) = node.live(&self.settings).await?;
        let send = async |command: &Cmd| {
            if is_moving {
                live.ask_moving(command).await
            } else {
                live.ask(command).await
            }
        };
        let answer = match asked {
            Asked::Command(command) => send(command).await,
            Asked::Script(call) => match send(&call.command(&live.run, false)).await {
                // The server does not know the script (any more), and has run nothing.
                Err(error) if error.code() == Some("NOSCRIPT") => {
                    send(&call.command(&live.run, true)).await
                }
                answer => answer,
            },
        };
        if let Err(error) = &answer {
            // The network may have lost the connection without a word, and the others with it: then no answer comes on
            // them any more, and each would be waited for in turn.
            if error.is_timeout() {
                if link.give_up(&live) {
                    node.let_go();
                }
            } else if error.is_unrecoverable_error() {
                link.let_go_of(&live);
            }
        }
        Ok(answer)
    }

    fn node(&self, address: &Address) -> Arc<Node> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let node = nodes.entry(address.clone());
        Arc::clone(node.or_insert_with(|| Arc::new(Node::new(address.clone(), self.links))))
    }

    async fn serving(&self, slot: u16) -> Result<Arc<Node>> {
        if !self.is_cluster() {
            let only = self.seeds.first().map(|address| self.node(address));
            return only.ok_or_else(|| misconfigured("store.url names no server"));
        }
        if self.slots().serving(slot).is_none() {
            self.discover().await?;
        }
        let serving = self.slots().serving(slot).cloned();
        let address = serving.ok_or_else(|| nobody_serves(slot))?;
        Ok(self.node(&address))
    }

    /// Takes over a node's report on a slot that is not its own, and asks about the others.
    async fn learn(&self, moved: &RedisError) -> Result<()> {
        if self.discover().await.is_ok() {
            return Ok(());
        }
        let Some((address, slot)) = moved
            .redirect_node()
            .and_then(|(node, slot)| Some((address_of(node)?, slot)))
        else {
            return self.discover().await;
        };
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        *slots = Arc::new(slots.with(slot, address));
        Ok(())
    }

    async fn slots_told_by(&self, address: &Address) -> Result<Slots> {
        let node = self.node(address);
        let command = slots_command();
        let told = self
            .ask_node(&node, &Asked::Command(&command), false)
            .await?;
        Ok(Slots::read(&told.map_err(of_call)?, address))
    }

    fn slots(&self) -> Arc<Slots> {
        Arc::clone(&self.slots.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Node {
    fn new(address: Address, links: usize) -> Self {
        Self {
            address,
            links: std::iter::repeat_with(Link::new).take(links).collect(),
            next: AtomicUsize::new(0),
        }
    }

    async fn live(&self, settings: &Settings) -> Result<(&Link, Live)> {
        let link = &self.links[self.next.fetch_add(1, Ordering::Relaxed) % self.links.len()];
        if link.is_lost(settings.patience).await {
            self.let_go();
        }
        Ok((link, link.live(&self.address, settings).await?))
    }

    fn let_go(&self) {
        self.links.iter().for_each(Link::let_go);
    }
}

fn address_of(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    Some(Address {
        host: host.trim_matches(['[', ']']).into(),
        port: port.parse().ok()?,
    })
}

fn nobody_serves(slot: u16) -> Error {
    Error::new(
        semel_core::ErrorKind::Unavailable,
        format!("no node of the Redis cluster serves slot {slot}"),
    )
    .not_applied()
    .retry_after(PAUSE)
}

/// Turns in which a call follows a cluster that changes.
const TURNS: u32 = 64;
/// Pause between two turns.
const PAUSE: Duration = Duration::from_millis(100);
