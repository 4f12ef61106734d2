//! A batch in progress: the items that are still open, and the groups in which they are asked about.
//!
//! Items are asked about by key, grouped by bucket. Those that a script could handle at once are answered; the rest is
//! decided here and written on the condition that it still stands. The loser of such a race asks again. Nobody holds a
//! lock while it thinks, so nobody waits for a worker that stands still.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

use futures_util::future::join_all;
use semel_core::key::OpIdHasher;
use semel_core::{Error, OpId, Operation, Result};

use crate::changes::{MOST_BYTES, MOST_KEYS};
use crate::error::contended;
use crate::retry::{PATIENT, ROUNDS, pause};
use crate::session::Session;
use crate::versioned::{self, Job};

/// One batch.
pub(crate) struct Rounds<'b, A> {
    pub(crate) session: &'b Session,
    pub(crate) ids: Vec<OpId>,
    answers: Vec<Option<A>>,
    /// Places of items that have no answer yet, in order.
    pub(crate) open: Vec<usize>,
    round: u32,
}

/// Keys that are asked about at once, each by its first open item.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) bucket: usize,
    pub(crate) items: Vec<usize>,
}

/// Further open items of the same keys, in order; most keys have none.
pub(crate) type Following = HashMap<OpId, Vec<usize>, BuildHasherDefault<OpIdHasher>>;

/// Results of a part.
pub(crate) struct Done<A> {
    pub(crate) answers: Vec<(usize, A)>,
    /// Items that are to be asked again.
    pub(crate) again: Vec<usize>,
    /// Set if something was left out for its size, so that asking again is no sign of a race.
    pub(crate) was_cut: bool,
}

impl<A> Done<A> {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self {
            answers: Vec::with_capacity(count),
            again: Vec::new(),
            was_cut: false,
        }
    }
}

impl<'b, A: Send> Rounds<'b, A> {
    pub(crate) fn new<'o>(
        session: &'b Session,
        operations: impl Iterator<Item = &'o Operation>,
    ) -> Self {
        let ids: Vec<_> = operations.map(Operation::id).collect();
        Self {
            session,
            answers: ids.iter().map(|_| None).collect(),
            open: (0..ids.len()).collect(),
            ids,
            round: 0,
        }
    }

    /// Returns whether there is another round, after a pause if there were many.
    pub(crate) async fn goes_on(&mut self) -> bool {
        if self.open.is_empty() || self.round >= ROUNDS {
            return false;
        }
        if self.round >= PATIENT {
            pause(self.round - PATIENT + 1).await;
        }
        self.round += 1;
        true
    }

    /// Groups the open items by key and bucket; `bytes` is the approximate size of an item.
    pub(crate) fn parts(&self, bytes: impl Fn(usize) -> usize) -> (Vec<Part>, Following) {
        let mut seen: HashSet<OpId, BuildHasherDefault<OpIdHasher>> = HashSet::default();
        seen.reserve(self.open.len());
        let mut following = Following::default();
        let mut parts: Vec<Part> = Vec::new();
        let mut filling: HashMap<usize, (usize, usize)> = HashMap::new();
        for item in &self.open {
            let id = self.ids[*item];
            if !seen.insert(id) {
                following.entry(id).or_default().push(*item);
                continue;
            }
            let bucket = self.session.buckets.of(&id);
            let (place, filled) = filling.entry(bucket).or_insert((usize::MAX, 0));
            let is_full = |part: &Part| part.items.len() == MOST_KEYS || *filled >= MOST_BYTES;
            if parts.get(*place).is_none_or(is_full) {
                (*place, *filled) = (parts.len(), 0);
                parts.push(Part {
                    bucket,
                    items: Vec::new(),
                });
            }
            *filled += bytes(*item);
            parts[*place].items.push(*item);
        }
        (parts, following)
    }

    /// Takes over the results of all parts. A part that failed leaves its items with its error; if nothing else is
    /// known of the batch, that is the answer to all of it.
    pub(crate) fn take(
        &mut self,
        parts: &[Part],
        following: &Following,
        done: Vec<Result<Done<A>>>,
        failed: impl Fn(Error) -> A,
    ) -> Result<()> {
        let (mut again, mut was_cut) = (Vec::new(), false);
        let is_first = self.answers.iter().all(Option::is_none);
        let errors = done.iter().filter(|done| done.is_err()).count();
        for (part, done) in parts.iter().zip(done) {
            match done {
                Ok(done) => {
                    again.extend(done.again);
                    was_cut |= done.was_cut;
                    for (item, answer) in done.answers {
                        self.answers[item] = Some(answer);
                    }
                }
                Err(error) if is_first && errors == parts.len() => return Err(error),
                Err(error) => {
                    for item in &part.items {
                        let others = following.get(&self.ids[*item]);
                        for item in std::iter::once(item).chain(others.into_iter().flatten()) {
                            self.answers[*item] = Some(failed(error.clone()));
                        }
                    }
                }
            }
        }
        again.sort_unstable();
        self.round -= u32::from(was_cut);
        self.open = again;
        Ok(())
    }

    /// Does the job of these items, each bucket for itself.
    pub(crate) async fn transact<J: Job<Answer = A>>(
        &mut self,
        batch: &[J::Item],
        items: &[usize],
    ) -> Result<()> {
        for items in self.by_bucket(items) {
            match versioned::transact::<J>(self.session, batch, &items, 0).await {
                Ok(answers) => {
                    for (item, answer) in items.iter().zip(answers) {
                        self.answers[*item] = Some(answer);
                    }
                }
                Err(error) if self.answers.iter().all(Option::is_none) => return Err(error),
                Err(error) => {
                    for item in items {
                        self.answers[item] = Some(J::failed(error.clone()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Groups these items by their buckets, in order.
    fn by_bucket(&self, items: &[usize]) -> Vec<Vec<usize>> {
        let mut buckets: std::collections::BTreeMap<usize, Vec<usize>> =
            std::collections::BTreeMap::new();
        for item in items {
            let bucket = self.session.buckets.of(&self.ids[*item]);
            buckets.entry(bucket).or_default().push(*item);
        }
        buckets.into_values().collect()
    }

    /// Answers an item.
    pub(crate) fn answer(&mut self, item: usize, answer: A) {
        self.answers[item] = Some(answer);
    }

    /// Returns every answer; items that are still open have lost too many races.
    pub(crate) fn finish(self, failed: impl Fn(Error) -> A) -> Vec<A> {
        let answer = |answer: Option<A>| answer.unwrap_or_else(|| failed(contended()));
        self.answers.into_iter().map(answer).collect()
    }
}

/// Runs `ask` for every part at the same time.
pub(crate) async fn each<'p, F: Future>(
    parts: &'p [Part],
    ask: impl Fn(&'p Part) -> F,
) -> Vec<F::Output> {
    match parts {
        [one] => vec![ask(one).await],
        many => join_all(many.iter().map(ask)).await,
    }
}
