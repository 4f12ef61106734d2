//! The journal of producers beside the keys of a store: what is to be sent, and what was confirmed of it.
//!
//! All keys of a producer are in one slot, so that each call is one script, which nothing runs beside. A script that
//! fails keeps what it wrote, so each asks for whatever may fail before it changes anything. It compares id, epoch and
//! next sequence before it writes; what its answer says of them decides here, by the rules of the core.

mod settings;
mod values;

pub use settings::PRODUCERS_FORMAT;

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::try_join_all;
use redis::Value;
use semel_core::port::producer::ProducerJournal;
use semel_core::port::store::Capabilities;
use semel_core::producer::ledger::Append;
use semel_core::producer::row::{ProducerRow, stored_name};
use semel_core::producer::{
    Batch, Incarnation, InputMark, MOST_INPUTS, Opened, Opening, Page, ProducerEntry, ProducerName,
    ProducerOrder, Standing, StoredBatch,
};
use semel_core::{Code, Error, ErrorKind, Result};
use tokio::sync::OnceCell;

use crate::buckets::{Buckets, Name};
use crate::config::{Options, StoreAddress, address};
use crate::error::{damaged, strange};
use crate::open::connect;
use crate::preflight::Kept;
use crate::script::{Call, ProducerScripts, Script};
use crate::server::{Asked, Server};
use crate::session::Reply;

/// The journal of producers on a Redis or Valkey server, or on a cluster of them, under the prefix of the store's url.
///
/// The first opening of a producer makes it. It is as durable as the server's append-only file, and as unsafe as its
/// replication: [`RedisProducers::capabilities`] says what that is. A server that evicts keys is refused.
pub struct RedisProducers {
    address: StoreAddress,
    options: Options,
    scripts: ProducerScripts,
    connected: OnceCell<(Server, Capabilities)>,
    buckets: OnceCell<Buckets>,
}

impl RedisProducers {
    /// Returns the journal at this url, without a connection yet.
    ///
    /// # Errors
    /// `invalid-config`, without anything of the url that may be secret.
    pub fn new(url: &str, options: &Options) -> Result<Self> {
        Ok(Self {
            address: address(url)?,
            options: Options {
                allow_eviction: false,
                ..options.clone()
            },
            scripts: ProducerScripts::new(),
            connected: OnceCell::new(),
            buckets: OnceCell::new(),
        })
    }

    /// Returns the promises of the servers as they were set up when this journal connected to them.
    ///
    /// # Errors
    /// Those of a server that does not answer, or is not fit.
    pub async fn capabilities(&self) -> Result<Capabilities> {
        Ok(self.connected().await?.1.clone())
    }

    async fn connected(&self) -> Result<&(Server, Capabilities)> {
        let connecting = self
            .connected
            .get_or_try_init(|| connect(&self.address, &self.options, Kept::Producers));
        connecting.await
    }

    async fn server(&self) -> Result<&Server> {
        Ok(&self.connected().await?.0)
    }

    /// Finds the journal, or makes it.
    async fn buckets(&self) -> Result<&Buckets> {
        let made = async || {
            let found = settings::begin(self, true).await?;
            found.ok_or_else(strange)
        };
        self.buckets.get_or_try_init(made).await
    }

    /// Finds the journal, if there is one.
    async fn present(&self) -> Result<Option<&Buckets>> {
        if let Some(buckets) = self.buckets.get() {
            return Ok(Some(buckets));
        }
        let Some(found) = settings::begin(self, false).await? else {
            return Ok(None);
        };
        let found = self.buckets.get_or_init(|| std::future::ready(found)).await;
        Ok(Some(found))
    }

    /// Begins a call about a producer.
    fn call<'s>(script: &'s Script, buckets: &Buckets, name: &ProducerName) -> Call<'s> {
        let bucket = buckets.of_producer(name.as_str());
        let keys = vec![
            buckets.key(bucket, Name::Producers),
            named(buckets, Name::ProducerStreams, name, None),
        ];
        let mut call = Call::new(script, keys, [0; 4], "".into());
        call.arg(name.as_str());
        call
    }

    /// Begins a call of an incarnation.
    fn call_of<'s>(
        script: &'s Script,
        buckets: &Buckets,
        incarnation: &Incarnation,
        stream: &str,
    ) -> Call<'s> {
        let mut call = Self::call(script, buckets, &incarnation.name);
        call.arg(&*incarnation.id)
            .arg(incarnation.epoch.to_be_bytes())
            .arg(stream);
        call
    }

    async fn ask(&self, buckets: &Buckets, name: &ProducerName, call: &Call<'_>) -> Result<Reply> {
        let slot = buckets.slot(buckets.of_producer(name.as_str()));
        Reply::of(self.server().await?.ask(slot, Asked::Script(call)).await?)
    }

    /// Reads a hash as it is at this moment.
    async fn pairs(&self, slot: u16, key: Vec<u8>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut all = redis::cmd("HGETALL");
        all.arg(key);
        let server = self.server().await?;
        let mut reply = match server.ask(slot, Asked::Command(&all)).await? {
            // Some protocols have a map of their own.
            Value::Map(pairs) => {
                let flat = pairs.into_iter().flat_map(|(field, value)| [field, value]);
                Reply::of(Value::Array(flat.collect()))?
            }
            other => Reply::of(other)?,
        };
        let mut pairs = Vec::new();
        while !reply.is_empty() {
            pairs.push((reply.bytes()?, reply.bytes()?));
        }
        Ok(pairs)
    }
}

impl ProducerJournal for RedisProducers {
    async fn open(&self, opening: &Opening) -> Result<Opened> {
        opening.fits_columns()?;
        let buckets = self.buckets().await?;
        settings::try_rights(self, buckets, &opening.name).await?;
        let mut call = Self::call(&self.scripts.open, buckets, &opening.name);
        call.arg(&*opening.id())
            .arg(&*opening.stream)
            .arg(&*opening.target);
        let mut reply = self.ask(buckets, &opening.name, &call).await?;
        let is_opened = reply.int()? == 1;
        let (found, target) = values::state(&mut reply)?;
        let row = found.ok_or_else(strange)?;
        let stream = row.stream.ok_or_else(strange)?;
        if !is_opened {
            return Err(opening.elsewhere(&target, stream.waiting()));
        }
        Ok(Opened {
            incarnation: Incarnation {
                name: opening.name.clone(),
                id: row.id,
                epoch: row.epoch,
            },
            next: stream.next,
            standing: Standing {
                confirmed: stream.confirmed,
                limit: row.is_frozen.then_some(stream.released),
            },
        })
    }

    async fn append(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        batch: &Batch,
    ) -> Result<Standing> {
        let buckets = self.buckets().await?;
        let name = &incarnation.name;
        if batch.end() > MOST_SEQUENCE {
            return Err(exhausted(name));
        }
        let mut call = Self::call_of(&self.scripts.append, buckets, incarnation, stream);
        call.key(named(buckets, Name::ProducerBatches, name, Some(stream)));
        call.key(named(buckets, Name::ProducerInputs, name, Some(stream)));
        let last = batch.end().saturating_sub(1);
        let confirmed = batch.confirmed.min(last);
        // What is confirmed already need not be kept; a batch without messages ends where it begins.
        let is_kept = batch.count > 0 && last > batch.confirmed;
        let at = batch.at.as_millis().to_be_bytes();
        call.arg(batch.first.to_be_bytes())
            .arg(batch.end().to_be_bytes())
            .arg(confirmed.to_be_bytes())
            .arg(if is_kept {
                last.to_string()
            } else {
                String::new()
            })
            .arg([&batch.count.to_be_bytes()[..], &at].concat())
            .arg(if is_kept { &batch.body[..] } else { &[] });
        match &batch.input {
            Some(input) => call.arg(input.digest).arg(values::mark(input)),
            None => call.arg(*b"").arg(*b""),
        };
        call.arg(MOST_INPUTS.to_string());
        let asked = self.ask(buckets, name, &call).await;
        if let Err(error) = &asked
            && error.code() == Code::StoreFull
            && confirmed > 0
        {
            // What the batch confirms makes room, and nobody else says it while the batch is tried again.
            let _ = self.confirm(incarnation, stream, confirmed).await;
        }
        let mut reply = asked?;
        let (found, _) = values::state(&mut reply)?;
        let has_written = reply.int()? == 1;
        // The state is that before the writing, which went by the same rules, and says whether it was done.
        let (append, standing) =
            ProducerRow::check_append(found.as_ref(), incarnation, stream, batch)?;
        if has_written != (append == Append::New) {
            return Err(damaged("producer"));
        }
        Ok(match append {
            Append::Known => standing,
            Append::New => Standing {
                confirmed: standing.confirmed.max(confirmed),
                ..standing
            },
        })
    }

    async fn confirm(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        through: u64,
    ) -> Result<Standing> {
        let buckets = self.buckets().await?;
        let name = &incarnation.name;
        let mut call = Self::call_of(&self.scripts.confirm, buckets, incarnation, stream);
        call.key(named(buckets, Name::ProducerBatches, name, Some(stream)));
        call.arg(through.to_be_bytes());
        let mut reply = self.ask(buckets, name, &call).await?;
        let (found, _) = values::state(&mut reply)?;
        let (_, standing) = ProducerRow::stream_of(found.as_ref(), incarnation, stream)?;
        Ok(standing)
    }

    async fn pending(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StoredBatch>> {
        let buckets = self.buckets().await?;
        let name = &incarnation.name;
        let mut call = Self::call_of(&self.scripts.pending, buckets, incarnation, stream);
        call.key(named(buckets, Name::ProducerBatches, name, Some(stream)));
        call.arg(after.saturating_add(1).to_string())
            .arg(most.to_string())
            .arg(Page::MOST_BYTES.to_string());
        let mut reply = self.ask(buckets, name, &call).await?;
        let (found, _) = values::state(&mut reply)?;
        ProducerRow::stream_of(found.as_ref(), incarnation, stream)?;
        let mut batches = Vec::new();
        while !reply.is_empty() {
            batches.push(values::batch(&mut reply)?);
        }
        Ok(batches)
    }

    async fn input(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        digest: &[u8; 32],
    ) -> Result<Option<InputMark>> {
        let buckets = self.buckets().await?;
        let name = &incarnation.name;
        let mut call = Self::call_of(&self.scripts.input, buckets, incarnation, stream);
        call.key(named(buckets, Name::ProducerInputs, name, Some(stream)));
        call.arg(*digest);
        let mut reply = self.ask(buckets, name, &call).await?;
        let (found, _) = values::state(&mut reply)?;
        ProducerRow::stream_of(found.as_ref(), incarnation, stream)?;
        values::stored_mark(&reply.bytes()?, *digest)
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        let Some(buckets) = self.present().await? else {
            return Ok(Vec::new());
        };
        let most = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
        // Nothing has their order: all names are read, a bucket at a time, of which the first are kept, and then the
        // streams of those alone.
        let mut producers = BTreeMap::new();
        for bucket in buckets.all() {
            let key = buckets.key(bucket, Name::Producers);
            for (name, value) in self.pairs(buckets.slot(bucket), key).await? {
                let name = String::from_utf8(name).map_err(|_| damaged("producer"))?;
                let name = stored_name(&name)?;
                if after.is_none_or(|after| name > *after) {
                    producers.insert(name, (buckets.slot(bucket), value));
                }
                if producers.len() > most {
                    producers.pop_last();
                }
            }
        }
        let producers: Vec<_> = producers.into_iter().collect();
        let mut entries = Vec::new();
        for together in producers.chunks(TOGETHER) {
            let asked = together.iter().map(|(name, (slot, value))| async move {
                let key = named(buckets, Name::ProducerStreams, name, None);
                let streams = self.pairs(*slot, key).await?;
                values::entry(name.clone(), value, &streams)
            });
            entries.extend(try_join_all(asked).await?);
        }
        Ok(entries)
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let Some(buckets) = self.present().await? else {
            return Ok(false);
        };
        let mut call = Self::call(&self.scripts.order, buckets, name);
        call.arg(match order {
            ProducerOrder::Freeze => "freeze",
            ProducerOrder::Thaw => "thaw",
            ProducerOrder::Release => "release",
        });
        Ok(self.ask(buckets, name, &call).await?.int()? == 1)
    }
}

impl fmt::Debug for RedisProducers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisProducers")
            .field("prefix", &self.address.prefix)
            .finish_non_exhaustive()
    }
}

/// Returns a key of a producer, or of one of its streams. A name has no space in it.
fn named(buckets: &Buckets, kind: Name, name: &ProducerName, stream: Option<&str>) -> Vec<u8> {
    let mut key = buckets.key(buckets.of_producer(name.as_str()), kind);
    key.extend_from_slice(name.as_str().as_bytes());
    if let Some(stream) = stream {
        key.push(b' ');
        key.extend_from_slice(stream.as_bytes());
    }
    key
}

fn exhausted(name: &ProducerName) -> Error {
    let message = format!(
        "producer {name} has given out all sequences that this store has a place for; go on under another name"
    );
    Error::new(ErrorKind::InvalidInput, message).not_applied()
}

/// The producers of a page whose streams are asked for at once.
const TOGETHER: usize = 64;
/// The last sequence that a script counts exactly.
const MOST_SEQUENCE: u64 = 1 << 53;
