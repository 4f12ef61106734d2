//! The one wait of a consumer: for the work of its strategy, for messages, and for everything that is due.
//!
//! A new reason to wake up belongs into [`RunState::wait`], and what it wakes up for into [`RunState::look_after`];
//! every strategy has both then.

use std::future::{pending, ready};
use std::pin::pin;
use std::time::Duration;

use semel_core::Store;

use super::RunState;
use crate::consumer::outstanding::Stage;
use crate::consumer::reader::ReaderHandle;

impl<S: Store + Clone> RunState<S> {
    /// Takes in hand every message that is there, and waits for something to do if there is none.
    pub(in crate::consumer) async fn gather(&mut self, reader: &mut ReaderHandle) {
        self.gather_beside(reader, true, None, pending::<()>())
            .await;
    }

    /// Does the same until `work` ends, whose result it returns, or `at` is over. A ready message is something to do
    /// only if it may begin.
    pub(in crate::consumer) async fn gather_beside<T>(
        &mut self,
        reader: &mut ReaderHandle,
        may_begin: bool,
        at: Option<Duration>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        loop {
            // What has ended goes before what is to begin.
            tokio::select! {
                biased;
                ended = &mut work => return Some(ended),
                () = ready(()) => {}
            }
            let stage = self.outstanding.stage();
            self.take_in(reader);
            self.look_after();
            let now = self.now();
            // Ended attempts are reported whether or not the target may be tried.
            let may_try = self.circuit.may_try(now);
            let may_ask =
                self.waits_for_store(may_try) && self.store.retry_at().is_none_or(|at| at <= now);
            let is_to_begin = may_begin && (may_ask || (may_try && self.outstanding.has_ready()));
            let has_fates = self.outcomes.has_settled() || self.outstanding.has_revoked();
            let is_over = at.is_some_and(|at| at <= now);
            let is_done = stage != Stage::Running || self.outstanding.is_done();
            if is_to_begin || is_done || has_fates || is_over {
                return None;
            }
            if let Some(ended) = self.wait(reader, stage, may_try, at, &mut work).await {
                return Some(ended);
            }
            self.outstanding.extend_if_due().await;
        }
    }

    /// Waits until `work` ends, whose result it returns, or anything else is to be done: a chunk is here, which it takes
    /// in hand, something is due, at `at` at the latest, or shutdown is requested. Held back messages and suspended
    /// ones are due only if there is a slot for them.
    ///
    /// `stage` is that of the moment before the caller looked whether there is anything to do: what it has not seen of a
    /// shutdown ends the wait, whenever it came.
    pub(in crate::consumer) async fn wait<T>(
        &mut self,
        reader: &mut ReaderHandle,
        stage: Stage,
        has_slot: bool,
        at: Option<Duration>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let waits_for_store = self.waits_for_store(has_slot);
        let due = [
            at,
            self.outstanding.next_due().filter(|_| has_slot),
            self.store.retry_at().filter(|_| waits_for_store),
            self.outstanding.extend_due(),
            self.outcomes.letters_due(),
            self.next_try(),
            self.keyless.ends_at(),
        ];
        let due = due.into_iter().flatten().min();
        let nap = due.map(|due| due.saturating_sub(self.now()));
        let (is_running, is_recalled) = (stage == Stage::Running, stage == Stage::Recalled);
        let has_room = self.has_room() && is_running;
        let awaits_letters = self.outcomes.awaits_letters();
        let chunk = tokio::select! {
            biased;
            ended = work => return Some(ended),
            () = self.context.shutdown_is_requested(), if is_running => return None,
            () = self.context.stop_is_requested(), if is_recalled => return None,
            () = self.outcomes.letters_are_answered(), if awaits_letters => return None,
            chunk = reader.next(), if has_room => chunk,
            () = tokio::time::sleep(nap.unwrap_or_default()), if nap.is_some() => return None,
        };
        self.receive(chunk);
        None
    }

    /// Deals with what is due or has been answered, except what the strategies do themselves.
    pub(in crate::consumer) fn look_after(&mut self) {
        self.outcomes.post();
        self.confirm_return();
        self.end_hold();
    }
}
