//! The sink's side of a producer that runs: what goes out next, and what its answers mean.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::producer::ProducerJournal;
use semel_core::port::sink::{Placement, Sink};
use semel_core::{Certainty, Error, ErrorKind, Result};

use super::{Run, SinkCall};
use crate::producer::event::ProducerEvent;
use crate::producer::group::Group;
use crate::producer::settings::{MOST_AT_ONCE, MOST_UNCONFIRMED};
use crate::producer::{MOST_BYTES, size};
use crate::verdict::Verdict;

impl<J: ProducerJournal, S: Sink> Run<J, S> {
    /// Begins a call of the sink, if there is anything that may be sent.
    pub(super) fn send_more(&mut self, now: Duration) {
        if self.sink_call.is_some() || self.must_ask(now) || now < self.sink_due {
            return;
        }
        let limit = match self.standing.limit {
            Some(limit) if !semel_core::planted("X23") => limit,
            Some(_) | None => u64::MAX,
        };
        if self.group.is_none() {
            self.group = self.next_group(limit);
        }
        let Some(group) = &mut self.group else {
            return;
        };
        // At most so many are sent that the journal does not know to be confirmed.
        if group.end() - 1 > self.standing.confirmed + MOST_UNCONFIRMED {
            return;
        }
        let places = group.next_call(self.settings.is_sent_in_waves, limit);
        if places.is_empty() {
            return;
        }
        let publications: Vec<_> = places
            .iter()
            .map(|at| group.publication(*at, &self.identity))
            .collect();
        self.summary.resent += group.count_resent(&places);
        if let Some(window) = self.settings.broker_window {
            let late = group.take_late(now, window);
            self.count_late(window, late);
        }
        let sink = Arc::clone(&self.sink);
        self.sink_call = Some(SinkCall {
            places,
            began: now,
            is_told: false,
            call: Box::pin(async move { sink.place(&publications).await }),
        });
    }

    /// Takes messages that are ready and may be sent.
    fn next_group(&mut self, limit: u64) -> Option<Group> {
        let (first, mut messages) = self.ready.pop_front()?;
        if first > limit {
            self.ready.push_front((first, messages));
            return None;
        }
        let most = usize::try_from(limit.saturating_sub(first).saturating_add(1));
        let most = most.unwrap_or(usize::MAX);
        if messages.len() > most {
            let rest = messages.split_off(most);
            self.ready.push_front((first + most as u64, rest));
        } else {
            let mut bytes: usize = messages.iter().map(size).sum();
            while let Some((next, more)) = self.ready.front() {
                let together = messages.len() + more.len();
                bytes += more.iter().map(size).sum::<usize>();
                let is_next = *next == first + messages.len() as u64;
                let is_room = together <= MOST_AT_ONCE as usize && bytes <= MOST_BYTES;
                if !is_next || !is_room || together > most {
                    break;
                }
                let more = self.ready.pop_front();
                messages.extend(more.into_iter().flat_map(|(_, messages)| messages));
            }
        }
        Some(Group::new(first, messages))
    }

    /// Takes the answers of the sink.
    pub(super) fn answered(
        &mut self,
        places: &[usize],
        began: Duration,
        answers: Vec<Result<Placement>>,
    ) {
        let now = self.clock.monotonic();
        let Some(group) = &mut self.group else {
            return;
        };
        let mut settled = HashSet::new();
        let (mut count, mut duplicates, mut failure, mut refused) = (0, 0, None, Vec::new());
        let mut answers = answers.into_iter();
        for at in places {
            let unanswered = || Err(Error::new(ErrorKind::Internal, "no answer of the sink"));
            let answer = answers.next().unwrap_or_else(unanswered);
            let placement = answer.as_ref().copied().unwrap_or_default();
            match Verdict::of(answer.map(drop)) {
                Verdict::Sent => {
                    count += 1;
                    duplicates += u64::from(placement.is_duplicate);
                    self.waiters.place(group.sequence(*at), placement);
                    settled.insert(*at);
                }
                Verdict::Poison(reason) => {
                    refused.push((group.sequence(*at), reason));
                    settled.insert(*at);
                }
                Verdict::Away(error) | Verdict::Failed(error) => {
                    if error.certainty() == Certainty::MaybeApplied {
                        group.may_be_there(*at, began);
                    }
                    failure.get_or_insert(error);
                }
            }
        }
        group.settle(&settled);
        let (is_settled, through) = (group.is_settled(), group.settled_through());
        for (sequence, reason) in refused {
            self.summary.refused += 1;
            self.tell(&ProducerEvent::Refused {
                sequence,
                error: &reason,
            });
            self.waiters.refuse(sequence, reason);
        }
        if count > 0 {
            self.summary.published += count;
            self.tell(&ProducerEvent::Published { count });
        }
        if duplicates > 0 {
            self.summary.duplicates += duplicates;
            self.tell(&ProducerEvent::Duplicates { count: duplicates });
        }
        match failure {
            Some(error) => {
                let (is_new, wait) = self.sink_away.again(now, &error);
                if is_new {
                    self.tell(&ProducerEvent::SinkAway { error: &error });
                }
                self.sink_due = now + wait;
                // Another process may have opened the producer meanwhile, and sent this.
                self.is_unsure = !semel_core::planted("X21");
            }
            None => {
                if let Some(lasted) = self.sink_away.ended(now) {
                    self.tell(&ProducerEvent::SinkBack { lasted });
                }
            }
        }
        let ours = (self.opened_at - 1).saturating_sub(self.sent);
        self.summary.repeated += ours.min(through.saturating_sub(self.sent));
        self.sent = self.sent.max(through);
        if is_settled {
            self.group = None;
        }
        self.answer_callers();
    }
}
