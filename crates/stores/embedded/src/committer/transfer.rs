//! Export and import of everything.

use semel_core::port::store::Page;
use semel_core::port::transfer::Item;
use semel_core::{FencingToken, Result, Timestamp};

use super::job::in_part;
use super::{Committer, PART_BYTES};
use crate::digest::Addresses;
use crate::error;
use crate::export::{Cursor, ExportPage};
use crate::import::{FinishedRecord, Import, Imported};
use crate::ledger::Part;
use crate::superblock::{Superblock, epoch_of};

impl Committer {
    /// Returns a page of everything. It ends, full or not, where one step has read as much as others may wait for.
    pub(super) fn export(
        &mut self,
        after: Option<&[u8]>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page<Item>> {
        let mut page = ExportPage::new(limit);
        let mut cursor = Some(Cursor::decode(after)?);
        while let Some(at) = cursor.take_if(|_| !page.is_full()) {
            let kind = at.kind();
            cursor = match at {
                Cursor::Start => {
                    page.put(Item::Token(self.ledger.token()), 0);
                    Some(Cursor::Ledger(Part::FIRST))
                }
                Cursor::Ledger(part) => {
                    let next = self.ledger.export(part, &mut page, now)?;
                    Some(next.map_or(Cursor::Parked(0), Cursor::Ledger))
                }
                Cursor::Parked(order) => {
                    let next = self.parked_log.export(order, &mut page)?;
                    Some(next.map_or(Cursor::Audited(0), Cursor::Parked))
                }
                Cursor::Audited(order) => {
                    let next = self.read_audit(order, |audited| {
                        let has_room = !page.is_full();
                        if has_room {
                            page.put(Item::Audited(Box::new(audited)), 0);
                        }
                        has_room
                    })?;
                    next.map(Cursor::Audited)
                }
            };
            if cursor.as_ref().is_some_and(|next| next.kind() == kind) {
                break;
            }
        }
        let next = cursor.map(|cursor| cursor.encode());
        let items = page.into_items();
        Ok(Page { items, next })
    }

    /// Adds a batch. Items are independent, so a large batch may be written in parts.
    pub(super) fn import(&mut self, import: Import, now: Timestamp) -> Result<Vec<bool>> {
        let Import {
            addresses,
            items,
            token,
        } = import;
        let before = self.ledger.token();
        if let Some(token) = token {
            self.raise_tokens(token)?;
        }
        let mut answers = Vec::with_capacity(items.len());
        for item in items {
            if let Imported::Finished(FinishedRecord { number, .. }) | Imported::Kept(number, _) =
                &item
            {
                self.ledger.read_ahead(&addresses, *number);
            }
            let answer = match item {
                Imported::Token(token) => Ok(token > before),
                item => self.import_one(item, &addresses, now),
            };
            answers.push(answer.map_err(|why| in_part(&why))?);
            self.ledger.split_frame();
            if self.ledger.pending_len() + self.parked_log.pending_len() >= PART_BYTES {
                self.commit_parked_log().map_err(|why| in_part(&why))?;
                self.commit_ledger().map_err(|why| in_part(&why))?;
                self.keep_up();
                self.refuse_if_poisoned()?;
            }
        }
        self.ledger.forget_readahead();
        if self.parked_log.pending_len() > 0 {
            // The answer waits for the other log alone.
            self.commit_parked_log().map_err(|why| in_part(&why))?;
        }
        Ok(answers)
    }

    fn import_one(
        &mut self,
        item: Imported,
        addresses: &Addresses,
        now: Timestamp,
    ) -> Result<bool> {
        match item {
            Imported::Token(_) => Ok(false),
            Imported::Finished(record) => self.ledger.import_finished(&record, addresses, now),
            Imported::Kept(number, listed) => {
                let address = addresses.get(number);
                self.ledger.import_kept(&listed, address, now)
            }
            Imported::Entity(scope, entity, record) => {
                Ok(self.ledger.import_entity(scope, entity, record))
            }
            Imported::Mark(mark) => Ok(self.ledger.import_mark(&mark)),
            Imported::Parked(id, message) => Ok(self.parked_log.park(id, &message, message.since)),
            Imported::Audited(audited) => self.import_audited(&audited),
        }
    }

    /// Makes sure that no token up to this one is ever given out again. The epoch behind it is durable before anything
    /// else is done, and the next opening begins beyond that epoch, so that tokens may go on from here.
    fn raise_tokens(&mut self, token: FencingToken) -> Result<()> {
        if token <= self.ledger.token() {
            return Ok(());
        }
        let superblock = Superblock {
            epoch: epoch_of(token) + 1,
            records: self.ledger.position(),
            parked: self.parked_log.position(),
            ..self.superblock.clone()
        };
        superblock
            .write(&*self.files)
            .map_err(|why| error::unopened("writing the superblock", why))?;
        self.ledger.go_on_from(token);
        self.superblock = superblock;
        Ok(())
    }
}
