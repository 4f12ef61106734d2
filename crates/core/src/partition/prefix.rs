//! The offset of a partition that may be committed: the one behind the contiguous finished prefix.

use std::collections::VecDeque;

/// The records that were read of one assignment of one partition, in the order of their offsets, from the
/// oldest unfinished one on.
#[derive(Debug, Default)]
pub struct Prefix {
    open: VecDeque<(i64, State)>,
    /// The number of them that are [`State::Held`].
    held: usize,
    /// The offset behind the prefix; `None` until a record is finished.
    finished: Option<i64>,
    committed: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Read, and being worked on or about to be.
    Held,
    /// Given back: nobody works on it, and it is not finished.
    GivenBack,
    Finished,
}

impl Prefix {
    /// Notes that the record at this offset was read; offsets rise, not always by one. Answers `false` for a
    /// record that was read before, as after a seek.
    pub fn read(&mut self, offset: i64) -> bool {
        let last = self.open.back().map(|(last, _)| *last);
        let last = last.or(self.finished.map(|next| next - 1));
        if last.is_some_and(|last| offset <= last) {
            return false;
        }
        self.open.push_back((offset, State::Held));
        self.held += 1;
        true
    }

    /// Notes that a record is finished. Ignores a record that is not open.
    pub fn finish(&mut self, offset: i64) {
        self.change(offset, State::Finished);
        while let Some(&(offset, State::Finished)) = self.open.front() {
            self.open.pop_front();
            self.finished = Some(offset + 1);
        }
    }

    /// Notes that nobody works on a record any more.
    pub fn give_back(&mut self, offset: i64) {
        self.change(offset, State::GivenBack);
    }

    fn change(&mut self, offset: i64, to: State) {
        if let Some(place) = self.place(offset) {
            let state = &mut self.open[place].1;
            if *state == State::Held {
                self.held -= 1;
            }
            if *state != State::Finished {
                *state = to;
            }
        }
    }

    /// The place of the record at this offset, if it is open.
    fn place(&self, offset: i64) -> Option<usize> {
        let (first, _) = self.open.front()?;
        // Without gaps in the log, the guess is right at once.
        let guess = usize::try_from(offset.checked_sub(*first)?).ok()?;
        if self.open.get(guess).is_some_and(|(at, _)| *at == offset) {
            return Some(guess);
        }
        let found = self.open.binary_search_by_key(&offset, |(at, _)| *at);
        found.ok()
    }

    /// The number of records that are being worked on.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The number of offsets between the oldest unfinished record and the newest that was read.
    pub fn span(&self) -> u64 {
        match (self.open.front(), self.open.back()) {
            (Some((first, _)), Some((last, _))) => last.abs_diff(*first) + 1,
            _ => 0,
        }
    }

    /// The offset to commit, if there is a new one.
    pub fn to_commit(&self) -> Option<i64> {
        self.finished.filter(|_| self.finished != self.committed)
    }

    /// The offset to commit if these, in order, were finished too; if nothing is finished, the offset of the
    /// oldest record.
    pub fn behind(&self, done: &[i64]) -> Option<i64> {
        let mut behind = self.finished;
        for (offset, state) in &self.open {
            if *state != State::Finished && done.binary_search(offset).is_err() {
                return Some(behind.unwrap_or(*offset));
            }
            behind = Some(offset + 1);
        }
        behind
    }

    /// Notes that everything before this offset is committed.
    pub fn committed(&mut self, offset: i64) {
        self.committed = Some(offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(offsets: impl IntoIterator<Item = i64>) -> Prefix {
        let mut prefix = Prefix::default();
        for offset in offsets {
            assert!(prefix.read(offset));
        }
        prefix
    }

    #[test]
    fn nothing_is_committed_over_an_unfinished_record() {
        let mut prefix = read(10..15);
        for offset in [14, 12, 11] {
            prefix.finish(offset);
            assert_eq!(prefix.to_commit(), None);
        }
        prefix.finish(10);
        assert_eq!(prefix.to_commit(), Some(13));
        prefix.committed(13);
        assert_eq!(prefix.to_commit(), None);
        prefix.finish(13);
        assert_eq!(prefix.to_commit(), Some(15));
        assert_eq!((prefix.held(), prefix.span()), (0, 0));
    }

    #[test]
    fn gaps_of_the_log_are_no_records() {
        let mut prefix = read([3, 7, 100]);
        assert_eq!(prefix.span(), 98);
        prefix.finish(7);
        prefix.finish(3);
        assert_eq!(prefix.to_commit(), Some(8));
        prefix.finish(100);
        assert_eq!(prefix.to_commit(), Some(101));
    }

    #[test]
    fn what_was_given_back_is_not_finished_and_held_by_nobody() {
        let mut prefix = read(0..3);
        prefix.finish(0);
        prefix.give_back(1);
        prefix.finish(2);
        assert_eq!((prefix.held(), prefix.to_commit()), (0, Some(1)));
        // The record is finished after all.
        prefix.finish(1);
        assert_eq!(prefix.to_commit(), Some(3));
    }

    #[test]
    fn a_record_is_read_once_and_finished_once() {
        let mut prefix = read(5..7);
        assert!(!prefix.read(5) && !prefix.read(6));
        prefix.finish(5);
        prefix.finish(5);
        prefix.finish(99);
        prefix.give_back(5);
        assert!(!prefix.read(5));
        assert_eq!((prefix.held(), prefix.to_commit()), (1, Some(6)));
    }

    #[test]
    fn what_would_be_finished_is_told_without_finishing_it() {
        let mut prefix = read([5, 6, 9, 12]);
        assert_eq!(prefix.behind(&[]), Some(5));
        assert_eq!(prefix.behind(&[6, 9]), Some(5));
        assert_eq!(prefix.behind(&[5, 6]), Some(7));
        prefix.finish(9);
        assert_eq!(prefix.behind(&[5, 6]), Some(10));
        assert_eq!(prefix.behind(&[5, 6, 12]), Some(13));
        assert_eq!(prefix.to_commit(), None);
        assert_eq!(Prefix::default().behind(&[1]), None);
    }

    /// Compares with the simplest rule there is, over random orders.
    #[test]
    fn the_prefix_is_that_of_the_plain_rule() {
        let mut seed = 7_u64;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).expect("it fits") % below
        };
        for _ in 0..200 {
            let (mut prefix, mut next) = (Prefix::default(), 0_i64);
            let mut all: Vec<(i64, bool)> = Vec::new();
            for _ in 0..300 {
                if all.is_empty() || random(3) > 0 {
                    next += 1 + i64::try_from(random(3)).expect("it fits");
                    assert!(prefix.read(next));
                    all.push((next, false));
                } else {
                    let place = random(all.len());
                    let chosen = &mut all[place];
                    chosen.1 = true;
                    prefix.finish(chosen.0);
                }
                let done = all.iter().take_while(|(_, done)| *done).last();
                assert_eq!(prefix.to_commit(), done.map(|(offset, _)| offset + 1));
                let held = all.iter().filter(|(_, done)| !done).count();
                assert_eq!(prefix.held(), held);
            }
        }
    }
}
