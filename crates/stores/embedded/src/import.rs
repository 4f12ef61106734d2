//! Everything in: a batch for the committer, checked and encoded in the caller's thread.

use std::ops::Range;

use semel_core::port::store::Listed;
use semel_core::port::transfer::Item;
use semel_core::{
    Audited, EntityRecord, Error, ErrorKind, FencingToken, Key, Mark, Parked, ParkedId, Record,
    Result, Scope, State,
};

use crate::digest::{Addresses, KeyedHash};
use crate::entry;
use crate::error;
use crate::limits::{
    check_audited, check_key, check_len, check_outcome, check_parked, check_transport,
};
use crate::options::Options;

/// A batch of items.
pub(crate) struct Import {
    /// Addresses of the records, with the encoded finished ones.
    pub(crate) addresses: Addresses,
    pub(crate) items: Vec<Imported>,
    /// The greatest token in the batch.
    pub(crate) token: Option<FencingToken>,
}

/// One item.
pub(crate) enum Imported {
    Token(FencingToken),
    Finished(FinishedRecord),
    /// Any other record, by its number among the records.
    Kept(usize, Box<Listed>),
    Entity(Scope, Key, EntityRecord),
    Mark(Mark),
    Parked(ParkedId, Box<Parked>),
    Audited(Box<Audited>),
}

/// A finished record that is not held: all that is needed to write it.
pub(crate) struct FinishedRecord {
    /// Its number among the records.
    pub(crate) number: usize,
    /// Its meta part and its tail, among the bytes of the addresses.
    pub(crate) meta: Range<usize>,
    pub(crate) tail: Range<usize>,
    pub(crate) state: State,
}

impl Import {
    /// Checks and encodes a batch; refuses all of it if one item cannot be taken.
    pub(crate) fn prepare(
        batch: &[Item],
        keyed_hash: &KeyedHash,
        options: &Options,
    ) -> Result<Self> {
        let mut import = Self {
            addresses: Addresses::default(),
            items: Vec::with_capacity(batch.len()),
            token: None,
        };
        for item in batch {
            let imported = match item {
                Item::Token(token) => {
                    check_token(*token)?;
                    import.token = import.token.max(Some(*token));
                    Imported::Token(*token)
                }
                Item::Record(listed) => {
                    check_record(listed, options)?;
                    import.record(listed, keyed_hash)
                }
                Item::Entity(scope, entity, record) => {
                    check_key(entity, "entity")?;
                    Imported::Entity(scope.clone(), entity.detached(), record.clone())
                }
                Item::Mark(mark) => {
                    check_len(mark.name.len(), "name of the mark")?;
                    Imported::Mark(mark.clone())
                }
                Item::Parked(message) => {
                    check_parked(message, options)?;
                    Imported::Parked(message.id(), message.clone())
                }
                Item::Audited(audited) => {
                    check_audited(audited)?;
                    Imported::Audited(audited.clone())
                }
            };
            import.items.push(imported);
        }
        Ok(import)
    }

    fn record(&mut self, listed: &Listed, keyed_hash: &KeyedHash) -> Imported {
        let Listed { operation, record } = listed;
        let number = self.addresses.len();
        let is_finished = matches!(record.state, State::Completed { .. } | State::Dead { .. });
        if !is_finished || record.held {
            self.addresses.push(keyed_hash, operation, |_| ());
            return Imported::Kept(number, Box::new(listed.clone()));
        }
        let mut tail_len = 0;
        let all = self.addresses.push(keyed_hash, operation, |bytes| {
            let tail = entry::put_record_body(bytes, record, false);
            tail_len = tail.len();
            bytes.extend_from_slice(tail);
        });
        let tail_start = all.end - tail_len;
        Imported::Finished(FinishedRecord {
            number,
            meta: all.start..tail_start,
            tail: tail_start..all.end,
            state: record.state,
        })
    }
}

fn check_record(listed: &Listed, options: &Options) -> Result<()> {
    let Record {
        transport,
        last_error,
        gate,
        outcome,
        past,
        ..
    } = &listed.record;
    check_key(&listed.operation.key, "key")?;
    check_transport(transport.as_ref())?;
    check_len(last_error.as_ref().map_or(0, |it| it.len()), "error")?;
    gate.as_ref()
        .map_or(Ok(()), |gate| check_key(&gate.entity, "entity"))?;
    if past.len() > MOST_PAST {
        return Err(error::too_large(
            "list of past attempts",
            past.len(),
            MOST_PAST,
        ));
    }
    outcome
        .as_ref()
        .map_or(Ok(()), |outcome| check_outcome(outcome, options))
}

fn check_token(token: FencingToken) -> Result<()> {
    if token.get() >> 63 == 0 {
        return Ok(());
    }
    let message = format!("fencing token {token} leaves no room for greater ones");
    Err(Error::new(ErrorKind::InvalidInput, message))
}

/// More past attempts than any store keeps.
const MOST_PAST: usize = 256;
