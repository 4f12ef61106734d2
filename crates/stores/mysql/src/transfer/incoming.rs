//! Adds items of another store, one importer at a time.

use std::collections::{HashMap, HashSet};

use semel_core::ledger::Found;
use semel_core::port::store::Listed;
use semel_core::port::transfer::Item;
use semel_core::{Audited, OpId, Result, Timestamp};

use crate::answer::{Set, only, time};
use crate::audit;
use crate::locked::{CHUNK, Rows, Writes, push_entity, sorted};
use crate::pool::PooledConnection;
use crate::row::{self, push_assignments, push_row};
use crate::script::{Literal, Script};
use crate::session::Session;
use crate::transaction::{Job, Stop};
use crate::{parked, tokens};

/// One call of `import`, in one transaction. XFR-2.
pub(crate) struct Import<'b>(pub(crate) &'b [Item]);

/// Rows that are there already.
struct There {
    now: Timestamp,
    records: HashMap<OpId, Found>,
    token: u64,
    audited: Vec<Audited>,
}

/// The statement that shows whether an item is new: it changes a row if the item is.
struct Shown {
    item: usize,
    script: usize,
    place: usize,
}

impl Job for Import<'_> {
    type Answer = Vec<bool>;

    async fn run(
        &mut self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<Self::Answer, Stop> {
        let mut there = self.inspect(session, connection).await?;
        let mut new = vec![false; self.0.len()];
        let mut writes = Writes::new(session, connection.most_bytes());
        self.add_records(session, &there, &mut writes, &mut new);
        let mut shown = Vec::new();
        for (item, it) in self.0.iter().enumerate() {
            let mut show = |writes: &Writes<'_>, place| {
                let script = writes.scripts() - 1;
                shown.push(Shown {
                    item,
                    script,
                    place,
                });
            };
            match it {
                Item::Record(_) => {}
                Item::Token(token) => {
                    if token.get() > there.token {
                        new[item] = true;
                        there.token = token.get();
                        let mut script = Script::default();
                        tokens::raise(&session.texts, &mut script, token.get());
                        writes.add_script(&script);
                    }
                }
                Item::Entity(scope, entity, record) => {
                    let mut row = Literal::default();
                    push_entity(&mut row, scope, entity, record);
                    let place = writes.add(&session.texts.entity_insert_new, &[&row]);
                    show(&writes, place);
                }
                Item::Mark(mark) => {
                    let name = Literal::bytes(mark.name.as_bytes());
                    let value = Literal::number(mark.value);
                    let place = writes.add(&session.texts.mark_add, &[&name, &value]);
                    show(&writes, place);
                }
                Item::Parked(message) => {
                    let since = Literal::number(message.since.as_millis());
                    let mut script = Script::default();
                    parked::add(session, &mut script, message.id(), message, &since);
                    let place = writes.add_script(&script);
                    show(&writes, place);
                }
                Item::Audited(entry) => {
                    if !there.audited.contains(entry) {
                        new[item] = true;
                        writes.add_audited(std::slice::from_ref(entry));
                        there.audited.push((**entry).clone());
                    }
                }
            }
        }
        let results = writes.run(connection).await?;
        for Shown {
            item,
            script,
            place,
        } in shown
        {
            new[item] = results[script][place].affected == 1;
        }
        crate::transaction::commit(session, connection).await?;
        Ok(new)
    }
}

impl Import<'_> {
    /// Locks out other importers, and reads the rows that are there of these items.
    async fn inspect(
        &self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<There, Stop> {
        let texts = &session.texts;
        let mut script = Script::default();
        script.add(&texts.begin, &[]);
        script.add(&texts.meta_lock, &[&Literal::bytes(b"import")]);
        let token = tokens::ask_last(&session.texts, &mut script, true);
        let ids = sorted(self.records().map(|(_, listed)| listed.operation.id()));
        let no = Literal::number(0);
        let mut read = Vec::new();
        for ids in ids.chunks(CHUNK) {
            let ids = Literal::list(ids.iter().map(OpId::as_bytes));
            read.push(script.add(&texts.lock, &[&no, &no, &ids]));
        }
        session.add_now(&mut script);
        let told = script.add(&texts.time, &[]);
        let instants: Vec<_> = self
            .audited()
            .map(|entry| entry.at.as_millis().to_string())
            .collect();
        let mut entries = Vec::new();
        for instants in instants.chunks(CHUNK) {
            let instants = Literal::code(instants.join(","));
            entries.push(script.add(&texts.audit_at, &[&instants]));
        }
        let sets = connection.run(&script).await?;
        let rows = |places: Vec<usize>| -> Vec<&mysql_async::Row> {
            let sets: Vec<&Set> = places.into_iter().map(|place| &sets[place]).collect();
            sets.into_iter().flat_map(|set| &set.rows).collect()
        };
        Ok(There {
            now: time(only(&sets[told])?, 0)?,
            records: rows(read)
                .into_iter()
                .map(row::found)
                .collect::<Result<_>>()?,
            token: tokens::last(&sets[token])?,
            audited: rows(entries)
                .into_iter()
                .map(audit::entry)
                .collect::<Result<_>>()?,
        })
    }

    fn add_records(
        &self,
        session: &Session,
        there: &There,
        writes: &mut Writes<'_>,
        new: &mut [bool],
    ) {
        let mut seen = HashSet::new();
        let mut incoming: Vec<_> = self
            .records()
            .map(|(item, listed)| (listed.operation.id(), item, listed))
            .collect();
        incoming.sort_unstable_by_key(|(id, item, _)| (*id, *item));
        let mut rows = Rows::default();
        for (id, item, Listed { operation, record }) in incoming {
            if record.is_forgotten(there.now) || !seen.insert(id) {
                continue;
            }
            match there.records.get(&id) {
                None | Some(Found::Absent) => {
                    new[item] = true;
                    rows.push(
                        |out| push_row(out, &id, operation, record),
                        |rows, count| writes.add_rows(rows, count),
                    );
                }
                Some(Found::Record(revision, known)) if known.is_forgotten(there.now) => {
                    new[item] = true;
                    let mut set = Literal::default();
                    push_assignments(&mut set, record);
                    let id = Literal::bytes(id.as_bytes());
                    writes.add(
                        &session.texts.update,
                        &[&set, &id, &Literal::number(*revision)],
                    );
                }
                // A record that does not check out is there, too.
                Some(Found::Record(..) | Found::Damaged(_)) => {}
            }
        }
        rows.end(|rows, count| writes.add_rows(rows, count));
    }

    fn records(&self) -> impl Iterator<Item = (usize, &Listed)> {
        self.0
            .iter()
            .enumerate()
            .filter_map(|(at, item)| match item {
                Item::Record(listed) => Some((at, &**listed)),
                Item::Token(_)
                | Item::Entity(..)
                | Item::Mark(_)
                | Item::Parked(_)
                | Item::Audited(_) => None,
            })
    }

    fn audited(&self) -> impl Iterator<Item = &Audited> {
        self.0.iter().filter_map(|item| match item {
            Item::Audited(entry) => Some(&**entry),
            Item::Token(_)
            | Item::Record(_)
            | Item::Entity(..)
            | Item::Mark(_)
            | Item::Parked(_) => None,
        })
    }
}
