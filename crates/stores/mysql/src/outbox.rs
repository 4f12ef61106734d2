//! The outbox: messages that leave if their transaction commits, and what their relays ask of the table.

mod operations;
mod partitions;
mod publish;
mod tables;

pub use publish::MysqlOutbox;
pub use tables::OUTBOX_FORMAT;
pub(crate) use tables::create;

use std::fmt;
use std::mem::replace;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mysql_async::Row;
use semel_core::outbox::{OutboxId, Outgoing, PartitionLease, headers_of_json};
use semel_core::port::outbox::{MOST_BATCH_BYTES, OutboxContents, OutboxStore, RelayName, Unsent};
use semel_core::{ByteString, Result};
use tokio::time::sleep;

use crate::answer::{Set, bytes, fixed, owned, parsed, some_number, some_text, text};
use crate::config::Options;
use crate::error::{Failure, corrupt, gone, misconfigured};
use crate::script::{Literal, Script, optional};
use crate::session::Session;
use crate::sql::OUTBOX;
use crate::transaction::{end, run_through, transact};

use partitions::{Balance, leases, numbers};
use tables::Found;

/// The outbox of a MySQL or MariaDB database, for the relays that publish it.
///
/// Its tables are in the database of the url, and have bare names whatever the prefix of a store; `semel store migrate`
/// makes them. Leases go by the server's clock.
pub struct MysqlOutboxStore {
    session: Arc<Session>,
    is_found: AtomicBool,
    look: Mutex<Look>,
    /// The last place that was read, by which nobody goes but the bug X13.
    last_read: AtomicI64,
}

/// The end of the stream that was read last, as it was seen last.
struct Look {
    stream: Box<str>,
    seen: i64,
}

impl MysqlOutboxStore {
    /// Returns the outbox at this url, without a connection yet. Needs a tokio runtime.
    ///
    /// # Errors
    /// `invalid-config`, without anything of the url that may be secret.
    pub fn new(url: &str, options: &Options) -> Result<Self> {
        Ok(Self {
            session: Session::new(url, options)?.into(),
            is_found: AtomicBool::new(false),
            look: Mutex::new(Look {
                stream: Box::default(),
                seen: NEVER,
            }),
            last_read: AtomicI64::new(NEVER),
        })
    }

    /// Returns the format of the tables; `None` where there are none, or where their making broke off.
    ///
    /// # Errors
    /// Those of a server that is away.
    pub async fn format(&self) -> Result<Option<i64>> {
        let mut connection = self.session.connection().await?;
        let found = tables::found(&mut connection).await;
        end(&self.session, connection).await;
        match found.map_err(Failure::uncommitted)? {
            Found::Nothing | Found::HalfMade => Ok(None),
            Found::Format(format) => Ok(Some(format)),
        }
    }

    /// Counts what waits in it, and names the other streams that are not published.
    ///
    /// # Cost   reads every message that is not published
    /// # Errors   `InvalidConfig`: no outbox, one without its trigger, or a newer one; those of a server that is away
    pub async fn inspect(&self, stream: &str) -> Result<OutboxContents> {
        self.found().await?;
        let mut script = Script::default();
        script.add(&OUTBOX.streams, &[]);
        let sets = self.session.ask_patiently(&script).await?;
        let mut contents = OutboxContents::default();
        for row in &sets[0].rows {
            let name = some_text(row, 0)?;
            if *name == *stream {
                contents.waiting = some_number(row, 1)?;
                contents.dead = some_number(row, 2)?;
            } else {
                let relay = text(row, 3)?.map(str::to_owned);
                contents.others.push((name.into(), relay));
            }
        }
        Ok(contents)
    }

    /// Refuses an outbox that is missing, half made or newer, until it was found once.
    async fn found(&self) -> Result<()> {
        if !self.is_found.load(Ordering::Relaxed) {
            let mut connection = self.session.connection().await?;
            let checked = tables::check(&mut connection).await;
            end(&self.session, connection).await;
            checked?;
            self.is_found.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Does the same for a stream, whose name the texts of the table have to tell from others.
    async fn found_for(&self, stream: &str) -> Result<()> {
        if stream.ends_with(' ') {
            let message = "a stream of an outbox in MySQL does not end with a space, which its texts do not count";
            return Err(misconfigured(message));
        }
        self.found().await
    }

    /// Changes the tables in one transaction and one round trip.
    async fn write(&self, statements: impl FnOnce(&mut Script)) -> Result<Vec<Set>> {
        let texts = &self.session.texts;
        let mut script = Script::default();
        script.add(&texts.begin, &[]);
        self.session.add_now(&mut script);
        statements(&mut script);
        script.add(&texts.commit, &[]);
        let mut connection = self.session.connection().await?;
        let ran = run_through(&self.session, &mut connection, &script).await;
        end(&self.session, connection).await;
        ran
    }

    /// Does the same, and counts the rows that it changed.
    async fn change(&self, statements: impl FnOnce(&mut Script)) -> Result<u64> {
        let sets = self.write(statements).await?;
        Ok(sets.iter().map(|set| set.affected).sum())
    }

    /// Reads the place at the end of what is new in the stream; zero if nothing is. A task of its own: a connection is not lost with whoever stops waiting.
    async fn last(&self, stream: &str) -> Result<i64> {
        let mut script = Script::default();
        script.add(&OUTBOX.last, &[&Literal::typed(stream)]);
        let session = Arc::clone(&self.session);
        let looking = tokio::spawn(async move { session.ask(&script).await });
        let sets = looking.await.unwrap_or_else(|_| Err(gone()))?;
        let last = sets[0].rows.first().map(|row| parsed(row, 0));
        Ok(last.transpose()?.flatten().unwrap_or(0))
    }

    fn look(&self) -> std::sync::MutexGuard<'_, Look> {
        self.look.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutboxStore for MysqlOutboxStore {
    async fn lease(
        &self,
        relay: &RelayName,
        lease: Duration,
        balanced: bool,
    ) -> Result<Vec<PartitionLease>> {
        self.found_for(&relay.stream).await?;
        let millis = millis(lease);
        if balanced {
            return transact(&self.session, Balance { relay, millis }).await;
        }
        let mut held = 0;
        let sets = self.write(|script| {
            let [stream, process] = [&relay.stream, &relay.process].map(|it| Literal::typed(it));
            let values = [&millis, &stream, &process, &millis, &stream, &process];
            script.add(&OUTBOX.renew, &values);
            held = script.add(&OUTBOX.held, &[&stream, &process]);
        });
        let sets = sets.await?;
        leases(&sets[held])
    }

    async fn pending(
        &self,
        relay: &RelayName,
        leases: &[PartitionLease],
        most: u32,
    ) -> Result<Vec<Outgoing>> {
        if self.look().stream != relay.stream {
            *self.look() = Look {
                stream: relay.stream.clone(),
                seen: NEVER,
            };
        }
        if leases.is_empty() || most == 0 {
            return Ok(Vec::new());
        }
        let partitions: Vec<u16> = leases.iter().map(|it| it.partition).collect();
        let partitions = numbers(&partitions);
        let mut tokens = Literal::default();
        for lease in leases {
            tokens.comma();
            tokens.push_code(&format!("({},{})", lease.partition, lease.token));
        }
        let [stream, process] = [&relay.stream, &relay.process].map(|it| Literal::typed(it));
        let most = &Literal::number(most.into());
        let mut script = Script::default();
        self.session.add_now(&mut script);
        let pending = script.add(
            &OUTBOX.pending,
            &[
                &stream,
                &partitions,
                most,
                &stream,
                &partitions,
                most,
                most,
                &stream,
                &process,
                &tokens,
                &Literal::number(MOST_BATCH_BYTES.unsigned_abs()),
            ],
        );
        let sets = self.session.ask(&script).await?;
        let pending = sets[pending].rows.iter().map(outgoing);
        let mut pending = pending.collect::<Result<Vec<_>>>()?;
        if pending.is_empty() {
            return Ok(pending);
        }
        let read = self.change(|script| {
            script.add(&OUTBOX.read, &[&stream, &process]);
        });
        if !semel_core::planted("X12") && read.await? == 0 {
            // The leases have run out, and others have removed the process.
            return Ok(Vec::new());
        }
        pending.sort_by_key(|it| (it.place, it.id));
        if semel_core::planted("X13") {
            let last = self.last_read.load(Ordering::Relaxed);
            pending.retain(|it| it.place > last);
        }
        if let Some(last) = pending.last() {
            self.last_read.store(last.place, Ordering::Relaxed);
        }
        Ok(pending)
    }

    async fn sent(&self, ids: &[OutboxId], keep: bool) -> Result<u64> {
        if ids.is_empty() {
            return Ok(0);
        }
        // Whoever removes the same at once takes the rows in the same order.
        let mut ids: Vec<[u8; 16]> = ids.iter().map(|it| it.as_u128().to_be_bytes()).collect();
        ids.sort_unstable();
        let text = if keep { &OUTBOX.kept } else { &OUTBOX.sent };
        self.change(|script| {
            script.add(text, &[&Literal::list(ids)]);
        })
        .await
    }

    async fn put_off(&self, relay: &RelayName, unsent: &[Unsent]) -> Result<Vec<OutboxId>> {
        let [stream, process] = [&relay.stream, &relay.process].map(|it| Literal::typed(it));
        let mut updates = Vec::with_capacity(unsent.len());
        let sets = self.write(|script| {
            for it in unsent {
                let wait = optional(it.wait, millis);
                let values = [
                    &Literal::number(it.counted.into()),
                    // People read it with tools that end a text there.
                    &Literal::typed(&it.error.replace('\0', "")),
                    &wait,
                    &wait,
                    &Literal::bytes(&it.id.as_u128().to_be_bytes()),
                    &stream,
                    &process,
                    &Literal::number(it.lease.partition.into()),
                    &Literal::code(it.lease.token.to_string()),
                ];
                updates.push((script.add(&OUTBOX.put_off, &values), it.id));
            }
        });
        let sets = sets.await?;
        let is_changed = |at: usize| sets.get(at).is_some_and(|set| set.affected > 0);
        let changed = updates.into_iter().filter(|(at, _)| is_changed(*at));
        Ok(changed.map(|(_, id)| id).collect())
    }

    async fn forget(&self, stream: &str, published_for: Duration, most: u32) -> Result<u64> {
        self.change(|script| {
            let values = [
                &Literal::typed(stream),
                &millis(published_for),
                &Literal::number(most.into()),
            ];
            script.add(&OUTBOX.forget, &values);
        })
        .await
    }

    async fn leave(&self, relay: &RelayName) -> Result<()> {
        let [stream, process] = [&relay.stream, &relay.process].map(|it| Literal::typed(it));
        let left = self.write(|script| {
            let values = [&stream, &process, &stream, &process];
            script.add(&OUTBOX.leave, &values);
        });
        left.await.map(drop)
    }

    async fn committed(&self) -> Result<()> {
        loop {
            let stream = self.look().stream.clone();
            let last = self.last(&stream).await?;
            if replace(&mut self.look().seen, last) != last {
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }
}

impl fmt::Debug for MysqlOutboxStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MysqlOutboxStore")
    }
}

fn outgoing(row: &Row) -> Result<Outgoing> {
    let absent = || corrupt("message of an outbox");
    Ok(Outgoing {
        id: id(row)?,
        partition: parsed(row, 1)?.ok_or_else(absent)?,
        place: parsed(row, 2)?.ok_or_else(absent)?,
        order_key: lossy(row, 3)?,
        headers: lossy(row, 4)?.map_or(Ok(Vec::new()), |headers| headers_of_json(&headers)),
        payload: owned(row, 5)?.ok_or_else(absent)?,
        attempts: parsed(row, 6)?.ok_or_else(absent)?,
    })
}

/// Reads the id, which is the first column.
fn id(row: &Row) -> Result<OutboxId> {
    let id: [u8; 16] = fixed(row, 0)?.ok_or_else(|| corrupt("message of an outbox"))?;
    Ok(OutboxId::from_u128(u128::from_be_bytes(id)))
}

/// Reads a text, which others wrote: what is no UTF-8 is replaced.
fn lossy(row: &Row, column: usize) -> Result<Option<ByteString>> {
    let text = bytes(row, column)?;
    Ok(text.map(|it| String::from_utf8_lossy(it).into_owned().into()))
}

fn millis(duration: Duration) -> Literal {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(MOST_MILLIS);
    Literal::number(millis.min(MOST_MILLIS))
}

/// No place.
const NEVER: i64 = -1;
/// The time between two looks at the end of the stream.
const LOOK: Duration = Duration::from_millis(20);
/// A time that surely fits into the server's integers together with its clock.
const MOST_MILLIS: u64 = 1 << 52;
