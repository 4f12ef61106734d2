//! The statements of a call, with their values.

use semel_core::Result;
use semel_core::producer::row::ProducerRow;
use semel_core::producer::{Batch, Incarnation, MOST_INPUTS, Opened, Opening, Page, Standing};

use crate::answer::{only, some_number, some_text};
use crate::error::damaged;
use crate::script::{Literal, Script};
use crate::session::Session;
use crate::sql::ProducerTexts;
use crate::transaction::{end, run_through};

use super::rows::{producer, stored};

/// The names in a call.
pub(super) struct Named {
    pub(super) name: Literal,
    pub(super) id: Literal,
    pub(super) epoch: Literal,
    pub(super) stream: Literal,
}

impl Named {
    pub(super) fn of(incarnation: &Incarnation, stream: &str) -> Self {
        Self {
            name: Literal::bytes(incarnation.name.as_str().as_bytes()),
            id: Literal::bytes(incarnation.id.as_bytes()),
            epoch: Literal::number(stored(incarnation.epoch)),
            stream: Literal::bytes(stream.as_bytes()),
        }
    }

    /// Adds what an append writes, if it is the next one of the latest incarnation; returns the place of the result that
    /// says whether it is.
    pub(super) fn add_append(
        &self,
        texts: &ProducerTexts,
        script: &mut Script,
        batch: &Batch,
    ) -> usize {
        let Self {
            name,
            id,
            epoch,
            stream,
        } = self;
        let number = |it| Literal::number(stored(it));
        let (first, end) = (number(batch.first), number(batch.end()));
        let own = script.add(&texts.own, &[name, id, epoch, stream, &first]) + 1;
        // A batch without messages has no last one: it ends where it begins.
        let last = batch.end().saturating_sub(1);
        if batch.count > 0 && last > batch.confirmed {
            let values = [
                name,
                stream,
                &number(last),
                &first,
                &number(batch.at.as_millis()),
                &number(batch.body.len() as u64),
                &Literal::bytes(&batch.body),
            ];
            script.add(&texts.append, &values);
        }
        let confirmed = number(batch.confirmed.min(last));
        script.add(&texts.advance, &[&end, &confirmed, name, stream]);
        script.add(&texts.forget, &[name, stream, name, stream]);
        if let Some(input) = batch.input {
            let (rows, bytes) = (number(input.rows), number(input.bytes));
            let (digest, whole) = (
                Literal::bytes(&input.digest),
                Literal::number(input.is_whole.into()),
            );
            let values = [
                name, stream, name, stream, &digest, &rows, &bytes, &whole, &rows, &bytes, &whole,
            ];
            script.add(&texts.note, &values);
            let others = Literal::number(MOST_INPUTS as u64 - 1);
            script.add(&texts.trim, &[name, stream, name, stream, &others]);
        }
        own
    }

    /// Adds the question for a page of batches.
    pub(super) fn add_pending(
        &self,
        texts: &ProducerTexts,
        script: &mut Script,
        after: u64,
        most: u32,
    ) {
        let Self { name, stream, .. } = self;
        let after = Literal::number(stored(after));
        let messages = Literal::number(most.into());
        // Each has one message at least.
        let most = Literal::number(u64::from(most).max(1));
        let bytes = Literal::number(Page::MOST_BYTES);
        let values = [
            name, stream, &after, name, stream, &most, &messages, &bytes, name, stream,
        ];
        script.add(&texts.pending, &values);
    }
}

/// An opening in one script, so that nobody waits for the row of a process that is stopped in between.
pub(super) struct Open {
    script: Script,
    elsewhere: usize,
    state: usize,
    producer: usize,
}

impl Open {
    pub(super) fn of(opening: &Opening, session: &Session) -> Self {
        let texts = &session.producers;
        let name = &Literal::bytes(opening.name.as_str().as_bytes());
        let stream = &Literal::bytes(opening.stream.as_bytes());
        let target = &Literal::bytes(opening.target.as_bytes());
        let id = &Literal::bytes(opening.id().as_bytes());
        let mut script = Script::default();
        script.add(&session.texts.begin, &[]);
        let open = script.add(&texts.open, &[name, id, name, stream, target]);
        let state = script.add(&texts.stream, &[name, stream]);
        let values = [name, name, stream, target, target, name];
        script.add(&texts.stream_open, &values);
        let producer = script.add(&texts.producer, &[name]);
        script.add(&session.texts.commit, &[]);
        Self {
            script,
            elsewhere: open + 2,
            state,
            producer,
        }
    }

    pub(super) async fn run(self, session: &Session, opening: &Opening) -> Result<Opened> {
        let mut connection = session.connection().await?;
        let ran = run_through(session, &mut connection, &self.script).await;
        end(session, connection).await;
        let sets = ran?;
        let state = &sets[self.state];
        let found = producer(&sets[self.producer], state)?.ok_or_else(|| damaged("producer"))?;
        if some_number(only(&sets[self.elsewhere])?, 0)? != 0 {
            let target = some_text(only(state)?, 3)?;
            let waiting = found.stream.map_or(0, |it| it.waiting());
            return Err(opening.elsewhere(&target, waiting));
        }
        Ok(answer(opening, found))
    }
}

fn answer(opening: &Opening, found: ProducerRow) -> Opened {
    let (next, confirmed, released) = found
        .stream
        .map_or((1, 0, 0), |it| (it.next, it.confirmed, it.released));
    Opened {
        incarnation: Incarnation {
            name: opening.name.clone(),
            id: found.id,
            epoch: found.epoch,
        },
        next,
        standing: Standing {
            confirmed,
            limit: found.is_frozen.then_some(released),
        },
    }
}
