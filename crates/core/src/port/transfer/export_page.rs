//! The room of a page of an export, by its items, by what they hold, and by what was read for nothing.

use super::Item;

/// The items of a page, while there is room. What an item holds is known once it was read, so few that may be large are
/// read at once, and no more than there is room for if they are as large as the largest so far. A page may end with few
/// items or none, where most of what was read is forgotten: others want to read as well.
#[derive(Debug)]
pub struct ExportPage {
    /// The items so far, to which a store adds.
    pub items: Vec<Item>,
    limit: usize,
    /// The number of items that were measured, their bytes, and the most of one.
    measured: usize,
    len_bytes: usize,
    largest: usize,
    /// The room that was given last, and that of all times in which nothing came of it.
    given: usize,
    wasted: usize,
}

impl ExportPage {
    /// Makes an empty page of `limit` items.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            items: Vec::new(),
            limit: limit.max(1),
            measured: 0,
            len_bytes: 0,
            largest: 1,
            given: 0,
            wasted: 0,
        }
    }

    /// Returns the number of items that may be read next, `at_once` at most; 0 of a full page.
    pub fn room(&mut self, at_once: usize) -> usize {
        for item in &self.items[self.measured..] {
            let len = item.len_bytes();
            self.len_bytes += len;
            self.largest = self.largest.max(len);
        }
        if self.measured == self.items.len() {
            self.wasted = self.wasted.saturating_add(self.given);
        }
        self.measured = self.items.len();
        if self.len_bytes >= MOST_BYTES || self.wasted >= MOST_WASTED {
            return 0;
        }
        let fitting = ((MOST_BYTES - self.len_bytes) / self.largest).max(1);
        let left = self.limit.saturating_sub(self.items.len());
        self.given = left.min(at_once).min(fitting);
        self.given
    }
}

/// Memory that a page takes at most, about.
const MOST_BYTES: usize = 8 << 20;
/// Rows that are read for nothing before a page ends.
const MOST_WASTED: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Scope;
    use crate::parked::Parked;
    use crate::settle::Mark;
    use crate::time::Timestamp;
    use bytes::Bytes;

    fn message(len: usize) -> Item {
        Item::Parked(Box::new(Parked {
            scope: Scope::new("", "pay").expect("a scope"),
            key: None,
            reason: "dead".into(),
            detail: "".into(),
            transport: None,
            coordinates: "in:1".into(),
            headers: Vec::new(),
            payload: vec![b'x'; len].into(),
            since: Timestamp::EPOCH,
        }))
    }

    #[test]
    fn a_page_is_full_by_its_items_or_by_what_they_hold() {
        let mark = Item::Mark(Mark {
            name: "at".into(),
            value: 1,
        });
        let mut page = ExportPage::new(100);
        assert_eq!(page.room(4), 4);
        page.items.extend(vec![mark.clone(); 4]);
        assert_eq!(page.room(usize::MAX), 96);
        page.items.extend(vec![mark; 96]);
        assert_eq!(page.room(4), 0, "by its items");
        let mut page = ExportPage::new(100);
        page.items.extend(vec![message(1 << 20); 4]);
        assert_eq!(page.room(8), 3, "as large as those before");
        page.items.extend(vec![message(1 << 20); 3]);
        assert_eq!(page.room(8), 1, "a page that has room takes one");
        page.items.push(message(25 << 20));
        assert_eq!(page.room(8), 0, "by what they hold");
        let held = Bytes::from(vec![b'x'; MOST_BYTES]);
        let Item::Parked(mut long) = message(0) else {
            unreachable!("a message")
        };
        long.headers = vec![("trace".into(), held)];
        let mut page = ExportPage::new(100);
        page.items.push(Item::Parked(long));
        assert_eq!(page.room(8), 0, "headers count");
    }

    #[test]
    fn a_page_ends_where_all_that_is_read_is_forgotten() {
        for limit in [1, 128, 4_096] {
            let mut page = ExportPage::new(limit);
            let mut read = 0;
            loop {
                match page.room(usize::MAX) {
                    0 => break,
                    room => read += room,
                }
            }
            assert!((MOST_WASTED..MOST_WASTED + limit).contains(&read), "{read}");
        }
    }
}
