//! Hands the rows of an input over to a producer, a few batches ahead of what is confirmed, until the input ends or a stop
//! is asked for.

use std::collections::VecDeque;

use semel_core::{Certainty, Result};
use tokio::sync::{mpsc, watch};

use super::rows::Rows;
use super::{Producer, ProducerSummary, Submission};

/// The rows that were handed over.
#[derive(Debug, Default)]
pub struct Feed {
    /// The rows that were read, blank ones left out.
    pub rows: u64,
    /// The rows without anything.
    pub blank: u64,
    /// The number of the last row of which it is known that the store has it.
    taken: u64,
    /// Those behind it.
    submitted: VecDeque<SubmittedRows>,
}

/// Rows that were handed over together.
#[derive(Debug)]
struct SubmittedRows {
    /// The number of the last of them.
    last: u64,
    /// The number of their messages.
    count: u64,
    submission: Submission,
}

/// The rows of an input that a producer has taken, once it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenRows {
    /// The number of the last row that is in the store for certain, with all that come before it.
    pub sure: u64,
    /// Rows behind those that are perhaps in the store.
    pub unsure: Option<UnsureRows>,
}

/// Rows whose append was not answered: all of them are in the store, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsureRows {
    /// The number of the last of them.
    pub last: u64,
    /// The sequence that comes next in the stream if none of them is in the store.
    pub next_without: u64,
    /// That if all of them are.
    pub next_with: u64,
}

impl Feed {
    /// Hands rows over until the input ends, or a stop is asked for; tells whether it ended.
    ///
    /// # Errors
    ///
    /// Those of the input and of the producer
    ///
    /// # Cancel safety   not safe: rows that were taken from `rows` and not handed over are lost. It is ended by `stopped`
    pub async fn hand_over(
        &mut self,
        producer: &Producer,
        rows: Option<mpsc::Receiver<Result<Rows>>>,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<bool> {
        let Some(mut rows) = rows else {
            return Ok(true);
        };
        loop {
            let read = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => break,
                read = rows.recv() => read,
            };
            let Some(read) = read else {
                return Ok(true);
            };
            self.submit(producer, read?).await?;
            if self.submitted.len() > AHEAD {
                let first = self.first_confirmed();
                tokio::select! {
                    biased;
                    _ = stopped.wait_for(|stop| *stop) => break,
                    confirmed = first => confirmed?,
                }
            }
        }
        // What was read of a pipe cannot be read again.
        while let Ok(Ok(read)) = rows.try_recv() {
            self.submit(producer, read).await?;
        }
        Ok(false)
    }

    /// Hands rows over: there is room, since a few are handed over ahead, and no more.
    async fn submit(&mut self, producer: &Producer, rows: Rows) -> Result<()> {
        self.rows += rows.messages.len() as u64;
        self.blank += rows.blank;
        let (last, count) = (rows.last, rows.messages.len() as u64);
        let submission = producer.submit(rows.messages, rows.mark).await?;
        self.submitted.push_back(SubmittedRows {
            last,
            count,
            submission,
        });
        Ok(())
    }

    async fn first_confirmed(&mut self) -> Result<()> {
        if let Some(first) = self.submitted.front_mut() {
            first.submission.confirmed().await?;
            self.taken = first.last;
            self.submitted.pop_front();
        }
        Ok(())
    }

    /// Returns the rows that the store has, for certain and perhaps, once the producer has ended.
    ///
    /// # Guarantee   what the store has not said that it has is not among those for certain
    /// # Cancel safety   the answer is lost, and nothing else
    pub async fn taken(mut self) -> TakenRows {
        let mut unsure = None::<UnsureRows>;
        while let Some(mut rows) = self.submitted.pop_front() {
            let place = &rows.submission.place;
            if place.is_appended() {
                self.taken = rows.last;
                continue;
            }
            let Some(first) = place.first() else {
                break;
            };
            match rows.submission.confirmed().await {
                Err(error) if error.certainty() == Certainty::NotApplied => break,
                Ok(_) | Err(_) => {
                    unsure = Some(UnsureRows {
                        last: rows.last,
                        next_without: unsure.map_or(first, |it| it.next_without),
                        next_with: first + rows.count,
                    });
                }
            }
        }
        TakenRows {
            sure: self.taken,
            unsure,
        }
    }
}

/// Waits until everything is confirmed or kept; tells whether a stop came first.
///
/// # Errors
///
/// Those of the producer
///
/// # Cancel safety   as a kill
pub async fn close_or_stop(
    producer: Producer,
    mut stopped: watch::Receiver<bool>,
) -> Result<(ProducerSummary, bool)> {
    let last = producer.clone();
    let closing = producer.close();
    tokio::select! {
        biased;
        closed = closing => return Ok((closed?, false)),
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    Ok((last.stop().await?, true))
}

/// Batches that are handed over before the first of them is confirmed.
const AHEAD: usize = 6;
