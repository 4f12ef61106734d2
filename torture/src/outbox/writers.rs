//! Writers of orders, at once: with late commits, transactions that are undone, and clients that die.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use super::client::Ended;
use super::database::Database;
use super::orders::{End, Transaction};
use crate::{Moments, scaled};

/// The state that writers share.
#[derive(Debug, Default)]
pub(super) struct Writers {
    is_over: AtomicBool,
    pub(super) committed: AtomicU64,
    pub(super) undone: AtomicU64,
    pub(super) late: AtomicU64,
    /// Transactions whose client or server died.
    pub(super) unknown: AtomicU64,
}

impl Writers {
    /// Writes transactions until it is over.
    pub(super) fn write(&self, number: usize, database: &Database, seed: u64) {
        let mut moments = Moments::seeded(seed).apart(number as u64);
        let mut client = None;
        for at in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let transaction = Transaction::next(number, at, &mut moments);
            let ended = client
                .get_or_insert_with(|| database.client())
                .transact(&transaction);
            let count = transaction.orders.len() as u64;
            let counter = match ended {
                Ended::Committed => &self.committed,
                Ended::Undone => &self.undone,
                Ended::Unknown => &self.unknown,
            };
            counter.fetch_add(count, Ordering::Relaxed);
            let is_late = transaction.is_late && ended == Ended::Committed;
            self.late.fetch_add(u64::from(is_late), Ordering::Relaxed);
            if ended == Ended::Unknown {
                client = None;
                // A server that is gone is not asked all the time.
                let is_away = transaction.end != End::Death;
                sleep(if is_away { MS(50) } else { MS(0) });
            }
            sleep(moments.between(MS(0), scaled(MS(60), MS(4))));
        }
    }

    /// Returns what ends the writing when it is dropped, so that nobody waits for writers after a panic.
    pub(super) fn ending(&self) -> Ending<'_> {
        Ending(self)
    }
}

/// Ends the writing when it is dropped.
pub(super) struct Ending<'w>(&'w Writers);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

const MS: fn(u64) -> Duration = Duration::from_millis;
