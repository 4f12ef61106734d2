//! Changes of the state in memory, each counted in its segment's usage and noted so that it can be undone.

use std::sync::Arc;

use semel_core::{Key, Scope};

use super::{End, EntityState, Finished, Kept, Ledger, Stored, Undo, Versioned};
use crate::audit_index::Spot;
use crate::digest::Digest;

impl Ledger {
    /// Places a finished record.
    pub(super) fn put_finished(&mut self, digest: Digest, finished: Finished) {
        self.set_in_table(digest, finished, true);
        self.undo.push(Undo::Placed(digest, finished));
    }

    /// Takes a finished record out of the table.
    pub(super) fn displace(&mut self, digest: Digest, finished: Finished) {
        self.log.revise();
        self.set_in_table(digest, finished, false);
        self.undo.push(Undo::Displaced(digest, finished));
    }

    pub(super) fn put_kept(&mut self, digest: Digest, kept: Option<Box<Kept>>) {
        let previous = self.exchange_kept(digest, kept);
        self.undo.push(Undo::Kept(digest, previous));
    }

    /// Notes that a record, already taken out of memory, is finished.
    pub(super) fn took_kept(&mut self, digest: Digest, kept: Box<Kept>) {
        self.exchange_stored(kept.stored, None);
        self.undo.push(Undo::Kept(digest, Some(kept)));
    }

    pub(super) fn put_entity(&mut self, key: (Scope, Key), entity: Option<Versioned<EntityState>>) {
        let previous = self.exchange_entity(&key, entity);
        self.undo.push(Undo::Entity(Box::new((key, previous))));
    }

    pub(super) fn put_mark(&mut self, name: Arc<str>, mark: Option<Versioned<u64>>) {
        let previous = self.exchange_mark(&name, mark);
        self.undo.push(Undo::Mark(name, previous));
    }

    /// Adds an entry to the audit trail, of a greater order than all before.
    pub(super) fn put_audited(&mut self, order: u64, stored: Stored) {
        let location = stored.location;
        self.audit_index.push(Spot { order, location });
        self.exchange_stored(None, Some(stored));
        self.undo.push(Undo::Audited(stored));
    }

    /// Notes the new location of an entry of the audit trail.
    pub(super) fn move_audited(&mut self, order: u64, from: Stored, to: Stored) {
        self.audit_index.relocate(order, to.location);
        self.exchange_stored(Some(from), Some(to));
        self.undo.push(Undo::AuditMoved(order, from, to));
    }

    /// Notes when a finished record in a segment ends. Never taken back, since a wrong value only
    /// delays the segment's removal.
    pub(super) fn note_window(&mut self, segment: u32, end: End) {
        if let Some(usage) = self.log.usage(segment) {
            usage.expires_at = usage.expires_at.max(end.expires_at);
            let from = usage.forgets_from.get_or_insert(end.forgotten_at);
            *from = end.forgotten_at.min(*from);
            let shortest = usage.shortest_window.get_or_insert(end.window);
            *shortest = end.window.min(*shortest);
        }
    }

    /// Takes back all changes but the first `keep` since the last commit.
    pub(super) fn take_back(&mut self, keep: usize) {
        while self.undo.len() > keep {
            match self.undo.pop() {
                None => {}
                Some(Undo::Placed(digest, finished)) => self.set_in_table(digest, finished, false),
                Some(Undo::Displaced(digest, finished)) => {
                    self.set_in_table(digest, finished, true);
                }
                Some(Undo::Kept(digest, kept)) => drop(self.exchange_kept(digest, kept)),
                Some(Undo::Entity(undo)) => {
                    let (key, entity) = *undo;
                    self.exchange_entity(&key, entity);
                }
                Some(Undo::Mark(name, mark)) => drop(self.exchange_mark(&name, mark)),
                Some(Undo::Audited(stored)) => {
                    self.audit_index.pop();
                    self.exchange_stored(Some(stored), None);
                }
                Some(Undo::AuditMoved(order, from, to)) => {
                    self.audit_index.relocate(order, from.location);
                    self.exchange_stored(Some(to), Some(from));
                }
            }
        }
    }

    fn set_in_table(&mut self, digest: Digest, finished: Finished, is_there: bool) {
        if is_there {
            let oldest = self.log.oldest();
            self.table.insert(digest.tag, finished.location, oldest);
        } else {
            self.table.remove(digest.tag, finished.location);
        }
        self.count_finished(finished, is_there);
    }

    /// Counts a finished record in its segment, or no longer counts it.
    #[inline]
    pub(super) fn count_finished(&mut self, finished: Finished, is_there: bool) {
        let Finished { location, is_dead } = finished;
        if let Some(usage) = self.log.usage(location.segment) {
            let count = &mut usage.finished[usize::from(is_dead)];
            *count = if is_there {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
        }
    }

    fn exchange_kept(&mut self, digest: Digest, kept: Option<Box<Kept>>) -> Option<Box<Kept>> {
        let new = kept.as_ref().and_then(|kept| kept.stored);
        let previous = match kept {
            Some(kept) => self.kept.insert(digest, kept),
            None => self.kept.remove(digest),
        };
        self.exchange_stored(previous.as_ref().and_then(|kept| kept.stored), new);
        previous
    }

    fn exchange_entity(
        &mut self,
        key: &(Scope, Key),
        entity: Option<Versioned<EntityState>>,
    ) -> Option<Versioned<EntityState>> {
        let new = entity.as_ref().and_then(|entity| entity.stored);
        let previous = match entity {
            Some(entity) => self.entities.insert(key.clone(), entity),
            None => self.entities.remove(key),
        };
        self.exchange_stored(previous.as_ref().and_then(|entity| entity.stored), new);
        previous
    }

    fn exchange_mark(
        &mut self,
        name: &Arc<str>,
        mark: Option<Versioned<u64>>,
    ) -> Option<Versioned<u64>> {
        let new = mark.as_ref().and_then(|mark| mark.stored);
        let previous = match mark {
            Some(mark) => self.marks.insert(Arc::clone(name), mark),
            None => self.marks.remove(name),
        };
        self.exchange_stored(previous.as_ref().and_then(|mark| mark.stored), new);
        previous
    }

    /// Counts the entries for which a segment must still be kept.
    pub(super) fn exchange_stored(&mut self, old: Option<Stored>, new: Option<Stored>) {
        if old == new {
            return;
        }
        if let Some(Stored { location, len }) = old
            && let Some(usage) = self.log.usage(location.segment)
        {
            usage.kept = usage.kept.saturating_sub(1);
            usage.kept_bytes = usage.kept_bytes.saturating_sub(u64::from(len));
        }
        if let Some(Stored { location, len }) = new
            && let Some(usage) = self.log.usage(location.segment)
        {
            usage.kept += 1;
            usage.kept_bytes += u64::from(len);
        }
    }
}
