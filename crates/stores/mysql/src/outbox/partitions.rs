//! The division of a stream's partitions among the processes that relay it.

use mysql_async::Row;
use semel_core::outbox::{Holder, PARTITIONS, PartitionLease, Share};
use semel_core::port::outbox::RelayName;
use semel_core::{Error, Result};

use super::tables::make_partitions;
use crate::answer::{Set, only, parsed, some_number, some_text};
use crate::error::corrupt;
use crate::pool::PooledConnection;
use crate::script::{Literal, Script};
use crate::session::Session;
use crate::sql::OUTBOX;
use crate::transaction::{Job, Stop, committed_or};

/// A division, in one transaction, in which no other process of the stream divides.
pub(super) struct Balance<'r> {
    pub(super) relay: &'r RelayName,
    pub(super) millis: Literal,
}

impl Job for Balance<'_> {
    type Answer = Vec<PartitionLease>;

    async fn run(
        &mut self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<Self::Answer, Stop> {
        let texts = &*OUTBOX;
        let RelayName {
            name,
            stream,
            sink,
            process,
        } = self.relay;
        let [name, stream, sink, process] =
            [name, stream, sink, process].map(|it| Literal::typed(it));
        let mut script = Script::default();
        script.add(&session.texts.begin, &[]);
        session.add_now(&mut script);
        let found = script.add(&texts.relay, &[&stream, &name, &sink, &stream]) + 1;
        let others = script.add(&texts.processes, &[&stream, &process]);
        let sets = connection.run(&script).await?;
        let others = some_number(only(&sets[others])?, 0)?;
        let row = only(&sets[found])?;
        let (by, to) = (some_text(row, 0)?, some_text(row, 1)?);

        let mut script = Script::default();
        // Whoever had the row of the stream may have kept this one waiting.
        session.add_now(&mut script);
        if (&by, &to) != (&self.relay.name, &self.relay.sink) {
            if others > 0 {
                return Err(self.relay.refused_by(&by, &to).into());
            }
            script.add(&texts.adopt, &[&name, &sink, &stream]);
        }
        script.add(
            &texts.beat,
            &[&stream, &process, &stream, &process, &self.millis],
        );
        connection.run(&script).await?;
        let holders = self.holders(connection).await?;
        let processes = usize::try_from(others).unwrap_or(usize::MAX - 1) + 1;
        let share = Share::of(&holders, processes);

        let mut script = Script::default();
        session.add_now(&mut script);
        if !share.give.is_empty() {
            let given = numbers(&share.give);
            script.add(&texts.give, &[&stream, &process, &given]);
        }
        let held = numbers(&[share.keep, share.take].concat());
        script.add(
            &texts.hold,
            &[&process, &process, &self.millis, &stream, &held, &process],
        );
        let held = script.add(&texts.held, &[&stream, &process]);
        script.add(&session.texts.commit, &[]);
        let sets = committed_or(connection.run(&script).await, connection)?;
        Ok(leases(&sets[held])?)
    }
}

impl Balance<'_> {
    /// Locks and reads the partitions; makes them first where there are none.
    async fn holders(&self, connection: &mut PooledConnection) -> Result<Vec<Holder>, Stop> {
        let [stream, process] =
            [&self.relay.stream, &self.relay.process].map(|it| Literal::typed(it));
        let mut script = Script::default();
        script.add(&OUTBOX.holders, &[&process, &stream]);
        let mut sets = connection.run(&script).await?;
        if sets[0].rows.is_empty() {
            make_partitions(connection, &self.relay.stream).await?;
            sets = connection.run(&script).await?;
        }
        if sets[0].rows.len() != usize::from(PARTITIONS) {
            return Err(corrupt("partition of an outbox").into());
        }
        let holders = sets[0].rows.iter().map(holder).collect::<Result<_>>();
        Ok(holders?)
    }
}

fn holder(row: &Row) -> Result<Holder> {
    Ok(match some_number(row, 0)? {
        0 => Holder::Own,
        1 => Holder::Nobody,
        _ => Holder::Other,
    })
}

/// Reads partitions and their tokens.
pub(super) fn leases(set: &Set) -> Result<Vec<PartitionLease>> {
    let lease = |row: &Row| {
        let (Some(partition), Some(token)) = (parsed(row, 0)?, parsed(row, 1)?) else {
            return Err::<_, Error>(corrupt("lease of an outbox"));
        };
        Ok(PartitionLease { partition, token })
    };
    set.rows.iter().map(lease).collect()
}

/// Returns a list of numbers; never empty, since `IN ()` is no SQL.
pub(super) fn numbers(partitions: &[u16]) -> Literal {
    if partitions.is_empty() {
        return Literal::null();
    }
    let mut list = Literal::default();
    for partition in partitions {
        list.comma();
        list.push_number(partition);
    }
    list
}
