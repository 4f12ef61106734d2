//! The journal's side of a producer that runs: what is asked of it next, and what its answers mean.

use std::sync::Arc;
use std::time::Duration;

use semel_core::port::producer::ProducerJournal;
use semel_core::port::sink::Sink;
use semel_core::producer::{Batch, Standing, StoredBatch, decode, encode};
use semel_core::{Certainty, Error, ErrorKind, Result};

use super::{Appending, Caller, Ending, JournalAnswer, JournalCall, Request, Run};
use crate::absence::is_passing;
use crate::producer::event::ProducerEvent;
use crate::producer::settings::{MOST_AT_ONCE, MOST_UNCONFIRMED};
use crate::producer::{MOST_BYTES, size};

impl<J: ProducerJournal, S: Sink> Run<J, S> {
    /// Begins the call of the journal that is most wanted, if none is under way.
    pub(super) fn ask_journal(&mut self, now: Duration, ending: Ending) {
        if self.journal_call.is_some() || now < self.journal_due {
            return;
        }
        let is_frozen = self.standing.limit.is_some();
        let unrecorded = self.unrecorded();
        let is_blocked = self
            .group
            .as_ref()
            .is_some_and(|it| it.end() - 1 > self.standing.confirmed + MOST_UNCONFIRMED);
        let is_sending =
            self.sink_call.is_some() || self.has_more_to_send() && now >= self.sink_due;
        let is_halted = ending == Ending::Halted;
        if !is_halted && (is_sending && self.must_ask(now) || is_blocked) {
            self.tell_journal();
        } else if let Some(appending) = self.unappended.take() {
            self.append(appending);
        } else if !is_halted && self.wants_page() {
            self.load();
        } else if let Some(appending) = self.next_batch(is_halted) {
            self.append(Box::new(appending));
        } else if unrecorded > 0
            && (is_halted
                || self.sink_call.is_none() && !self.has_more_to_send()
                || unrecorded >= MOST_UNCONFIRMED / 2)
        {
            self.tell_journal();
        } else if is_frozen && ending == Ending::None && now >= self.look_due {
            self.look_due = now + LOOK;
            self.tell_journal();
        }
    }

    /// Tells whether messages that may be sent are in the journal alone.
    fn wants_page(&self) -> bool {
        let limit = self.standing.limit.unwrap_or(u64::MAX);
        let first = self.sent + 1;
        self.group.is_none() && self.ready.is_empty() && first < self.next && first <= limit
    }

    /// Tells whether there is a message in memory that may be sent.
    fn has_more_to_send(&self) -> bool {
        let limit = self.standing.limit.unwrap_or(u64::MAX);
        let first = self.ready.front().map(|(first, _)| *first);
        let first = match &self.group {
            Some(group) => group.next_open(),
            None => first,
        };
        first.is_some_and(|first| first <= limit)
    }

    fn load(&mut self) {
        let (journal, stream) = (Arc::clone(&self.journal), self.stream.clone());
        let (incarnation, after) = (self.incarnation.clone(), self.sent);
        self.journal_call = Some(JournalCall(Box::pin(async move {
            let pending = journal.pending(&incarnation, &stream, after, MOST_AT_ONCE);
            JournalAnswer::Loaded(pending.await)
        })));
    }

    /// Records what the sink has, and asks whether there is a later opening.
    fn tell_journal(&mut self) {
        let (journal, stream) = (Arc::clone(&self.journal), self.stream.clone());
        let (incarnation, through) = (self.incarnation.clone(), self.sent);
        self.journal_call = Some(JournalCall(Box::pin(async move {
            JournalAnswer::Told(journal.confirm(&incarnation, &stream, through).await)
        })));
    }

    fn append(&mut self, mut appending: Box<Appending>) {
        let (journal, stream) = (Arc::clone(&self.journal), self.stream.clone());
        let incarnation = self.incarnation.clone();
        appending.batch.confirmed = self.sent;
        self.journal_call = Some(JournalCall(Box::pin(async move {
            let appended = journal.append(&incarnation, &stream, &appending.batch);
            let appended = appended.await;
            JournalAnswer::Appended(appending, appended)
        })));
    }

    /// Takes messages of callers, as many as may be unconfirmed; at a stop, all of them, since none is sent.
    fn next_batch(&mut self, is_halted: bool) -> Option<Appending> {
        let unconfirmed = self.next - 1 - self.sent;
        let is_frozen = self.standing.limit.is_some();
        let (mut messages, mut callers, mut input) = (Vec::new(), Vec::new(), None);
        let mut bytes = 0;
        while let Some(request) = self.inbox.front() {
            if let Some(error) = request.refusal.as_ref().and_then(|it| it.get()) {
                let error = error.clone();
                let refused = self.inbox.pop_front();
                let _ = refused.map(|it| it.reply.send(Err(error)));
                continue;
            }
            let together = messages.len() + request.messages.len();
            let size = request.bytes;
            let is_room = together <= MOST_AT_ONCE as usize
                && (is_frozen
                    || is_halted
                    || semel_core::planted("X24")
                    || unconfirmed + together as u64 <= MOST_UNCONFIRMED);
            let is_full = bytes + size > MOST_BYTES || request.is_alone;
            if !is_room || !callers.is_empty() && is_full {
                break;
            }
            bytes += size;
            let Some(request) = self.inbox.pop_front() else {
                break;
            };
            request.place.begins_at(self.next + messages.len() as u64);
            messages.extend(request.messages);
            callers.push(Caller {
                end: self.next + messages.len() as u64,
                input: request.input,
                reply: request.reply,
                place: request.place,
                refusal: request.refusal,
            });
            input = request.input.or(input);
            if request.is_alone {
                break;
            }
        }
        if callers.is_empty() {
            return None;
        }
        let batch = Batch {
            first: self.next,
            count: u32::try_from(messages.len()).unwrap_or(u32::MAX),
            body: encode(&messages),
            input,
            confirmed: self.sent,
            at: self.clock.now(),
        };
        Some(Appending {
            batch,
            messages,
            callers,
            is_unsure: false,
        })
    }

    /// Takes an answer of the journal.
    pub(super) fn told(&mut self, answer: JournalAnswer) -> Result<()> {
        let now = self.clock.monotonic();
        let failure = match answer {
            JournalAnswer::Appended(appending, Ok(standing)) => {
                self.appended(*appending, standing);
                None
            }
            JournalAnswer::Appended(appending, Err(error)) if is_refusal(&appending, &error) => {
                return self.refused(*appending, error);
            }
            JournalAnswer::Appended(mut appending, Err(error)) => {
                appending.is_unsure |= error.certainty() == Certainty::MaybeApplied;
                self.unappended = Some(appending);
                // The sequences are this incarnation's own: who has others has restored the store.
                if error.kind() == ErrorKind::Conflict {
                    return Err(error);
                }
                Some(error)
            }
            JournalAnswer::Told(Ok(standing)) => {
                self.is_unsure = false;
                self.stands(standing);
                None
            }
            JournalAnswer::Loaded(Ok(batches)) => {
                self.loaded(batches)?;
                None
            }
            JournalAnswer::Told(Err(error)) | JournalAnswer::Loaded(Err(error)) => Some(error),
        };
        match failure {
            Some(error) if is_passing(&error) => {
                let (is_new, wait) = self.journal_away.again(now, &error);
                if is_new {
                    self.tell(&ProducerEvent::JournalAway { error: &error });
                }
                self.journal_due = now + wait;
            }
            Some(error) => return Err(error),
            None => {
                self.heard = now;
                if let Some(lasted) = self.journal_away.ended(now) {
                    self.tell(&ProducerEvent::JournalBack { lasted });
                }
            }
        }
        Ok(())
    }

    /// Takes a batch that the journal takes in no case, perhaps since it is too large: no sequence of it is given out. Of
    /// several requests each is tried alone; one is told.
    fn refused(&mut self, appending: Appending, error: Error) -> Result<()> {
        let Appending {
            batch,
            mut messages,
            mut callers,
            is_unsure: _,
        } = appending;
        let is_one = callers.len() == 1;
        while let Some(caller) = callers.pop() {
            if is_one {
                let Some(refusal) = &caller.refusal else {
                    let _ = caller.reply.send(Err(error.clone()));
                    return Err(error);
                };
                let _ = refusal.set(error.clone());
                let _ = caller.reply.send(Err(error));
                return Ok(());
            }
            let first = callers.last().map_or(batch.first, |it| it.end);
            let first = usize::try_from(first - batch.first).unwrap_or(usize::MAX);
            let messages = messages.split_off(first);
            self.inbox.push_front(Request {
                bytes: messages.iter().map(size).sum(),
                messages,
                input: caller.input,
                reply: caller.reply,
                place: caller.place,
                refusal: caller.refusal,
                is_alone: true,
            });
        }
        Ok(())
    }

    fn appended(&mut self, appending: Appending, standing: Standing) {
        let Appending {
            batch,
            messages,
            callers,
            is_unsure: _,
        } = appending;
        let mut first = batch.first;
        for caller in callers {
            let Caller {
                end, reply, place, ..
            } = caller;
            place.is_in_journal();
            self.waiters.push(first, end, reply);
            first = end;
        }
        // What does not fit is read again: it waits for an order, or for what is read before it.
        let (mut in_memory, mut bytes) = (messages.len(), batch.body.len());
        for (_, messages) in &self.ready {
            in_memory += messages.len();
            bytes += messages.iter().map(size).sum::<usize>();
        }
        let is_next = match (self.ready.back(), &self.group) {
            (Some((first, messages)), _) => first + messages.len() as u64 == batch.first,
            (None, Some(group)) => group.end() == batch.first,
            (None, None) => self.sent + 1 == batch.first,
        };
        let most = usize::try_from(MOST_UNCONFIRMED).unwrap_or(usize::MAX);
        let is_room = self.ready.is_empty() || in_memory <= most && bytes <= 2 * MOST_BYTES;
        if !messages.is_empty() && is_next && is_room {
            self.ready.push_back((batch.first, messages));
        }
        self.next = batch.end();
        self.stands(standing);
    }

    fn stands(&mut self, standing: Standing) {
        match (self.standing.limit, standing.limit) {
            (None, Some(_)) => self.tell(&ProducerEvent::Frozen),
            (Some(_), None) => self.tell(&ProducerEvent::Thawed),
            (None, None) | (Some(_), Some(_)) => {}
        }
        self.standing = standing;
        self.answer_callers();
    }

    /// Takes messages that the journal had, those left out that the sink has already.
    fn loaded(&mut self, batches: Vec<StoredBatch>) -> Result<()> {
        let mut next = self.sent + 1;
        for batch in batches {
            let damaged = || {
                let message = "a batch of the journal of producers does not check out; go on under another name of a \
                               producer: a store that is restored has given out its sequences and ids before";
                Error::new(ErrorKind::Corrupt, message)
            };
            let mut messages = decode(&batch.body).ok_or_else(damaged)?;
            if messages.len() != batch.count as usize {
                return Err(damaged());
            }
            let skipped = (self.sent + 1).saturating_sub(batch.first);
            let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
            messages.drain(..skipped.min(messages.len()));
            if messages.is_empty() {
                continue;
            }
            let first = batch.first.max(self.sent + 1);
            if first != next {
                return Err(lost());
            }
            next = first + messages.len() as u64;
            if let Some(window) = self.settings.broker_window
                && first < self.opened_at
                && self.clock.now().since(batch.at) >= window
            {
                self.count_late(window, first..next);
            }
            self.ready.push_back((first, messages));
        }
        if self.ready.is_empty() && self.sent + 1 < self.next {
            return Err(lost());
        }
        Ok(())
    }

    /// Counts messages that the broker may have had and forgotten, each once.
    pub(super) fn count_late(
        &mut self,
        window: Duration,
        sequences: impl IntoIterator<Item = u64>,
    ) {
        for sequence in sequences {
            if sequence > self.late_through {
                self.late_through = sequence;
                if self.summary.late == 0 {
                    self.tell(&ProducerEvent::Late { window });
                }
                self.summary.late += 1;
            }
        }
    }

    /// Answers the callers whose messages are settled, or are known to be kept.
    pub(super) fn answer_callers(&mut self) {
        let (sent, limit, group) = (self.sent, self.standing.limit, &self.group);
        // What the sink has in hand is perhaps published: nobody is told that it is kept.
        let in_hand = self.sink_call.as_ref().and_then(|call| call.places.last());
        let in_hand = in_hand.zip(group.as_ref());
        let in_hand = in_hand.map(|(at, group)| group.sequence(*at));
        let last_in_hand = in_hand.unwrap_or(0);
        let limit = limit.filter(|limit| last_in_hand <= *limit);
        let is_settled = |sequence| group.as_ref().is_some_and(|it| it.has_settled(sequence));
        self.waiters.answer(sent, limit, is_settled);
    }
}

/// Tells whether the journal takes this batch in no case, and has not taken it.
fn is_refusal(appending: &Appending, error: &Error) -> bool {
    let has_not = !appending.is_unsure && error.certainty() == Certainty::NotApplied;
    has_not && error.kind() == ErrorKind::InvalidInput
}

fn lost() -> Error {
    let message = "the journal of producers has lost messages that were not confirmed; go on under another name of a \
                   producer";
    Error::new(ErrorKind::Corrupt, message)
}

/// The time between two looks whether a frozen producer may send again.
const LOOK: Duration = Duration::from_millis(500);
