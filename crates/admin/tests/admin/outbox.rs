//! An outbox in memory as its operators see it. Nobody relays it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use semel_admin::RelayPlace;
use semel_core::outbox::{OutboxId, Outgoing, PartitionLease};
use semel_core::port::outbox::operations::{
    Backlog, Changed, DeadMessage, DeadOrder, DeadPosition, OutboxOperations, WholeDeadMessage,
};
use semel_core::port::outbox::{AnyOutbox, OutboxStore, RelayName, Unsent};
use semel_core::{ByteString, Error, ErrorKind, Note, Result, Timestamp};

/// An outbox, all of whose messages are dead.
#[derive(Clone, Default)]
pub(crate) struct DeadOutbox(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    messages: Vec<WholeDeadMessage>,
    /// The orders that were given, by whom and why.
    orders: Vec<(DeadOrder, usize, Note)>,
    failure: Option<Error>,
    has_no_trail: bool,
    /// The messages of each order that it changes and does not count.
    uncounted: u64,
    hangs: bool,
    hangs_in_orders: bool,
    /// The pages that were read.
    reads: usize,
}

impl DeadOutbox {
    /// Adds a message that was given up at this time, in milliseconds.
    pub(crate) fn gives_up(&self, id: u128, order_key: Option<&'static str>, at: u64) {
        let id = OutboxId::from_u128(id);
        let order_key = order_key.map(ByteString::from_static);
        let payload = "{\"iban\":\"secret\",\"amount\":7}";
        let facts = DeadMessage {
            id,
            order_key: order_key.clone(),
            place: 1,
            attempts: 8,
            error: "HTTP 413: too large".into(),
            created_at: Timestamp::EPOCH,
            dead_at: Timestamp::from_millis(at),
            size_bytes: payload.len() as u64,
        };
        let message = Outgoing {
            id,
            partition: 0,
            place: 1,
            order_key,
            headers: Ok(vec![(
                ByteString::from_static("iban"),
                bytes::Bytes::from_static(b"secret"),
            )]),
            payload: payload.into(),
            attempts: 8,
        };
        let mut state = self.state();
        state.messages.retain(|it| it.facts.id != id);
        state.messages.push(WholeDeadMessage { facts, message });
    }

    /// Fails from now on, or no more.
    pub(crate) fn fails(&self, failure: Option<Error>) {
        self.state().failure = failure;
    }

    /// Has no audit trail beside it.
    pub(crate) fn has_no_trail(&self) {
        self.state().has_no_trail = true;
    }

    /// Answers each order with one less than it has changed, as if somebody else had changed that one.
    pub(crate) fn counts_one_less(&self) {
        self.state().uncounted = 1;
    }

    /// Answers no more.
    pub(crate) fn hangs(&self) {
        self.state().hangs = true;
    }

    /// Answers no order any more, each of which it carries out.
    pub(crate) fn hangs_in_orders(&self) {
        self.state().hangs_in_orders = true;
    }

    /// The pages that were read.
    pub(crate) fn reads(&self) -> usize {
        self.state().reads
    }

    async fn waits(&self) {
        if self.state().hangs {
            std::future::pending::<()>().await;
        }
    }

    /// The orders that were given: what, about how many, by whom and why.
    pub(crate) fn orders(&self) -> Vec<(DeadOrder, usize, String)> {
        let state = self.state();
        let orders = state.orders.iter();
        orders
            .map(|(order, count, note)| (*order, *count, format!("{}: {}", note.by, note.reason)))
            .collect()
    }

    /// A relay with this outbox, whose worker's own store has the orders about it.
    pub(crate) fn relay(&self, name: &str) -> RelayPlace {
        RelayPlace {
            name: name.into(),
            stream: "orders".into(),
            outbox: Some(AnyOutbox::new(self.clone())),
            elsewhere: None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }

    fn answers(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state();
        match &state.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(state),
        }
    }
}

impl OutboxOperations for DeadOutbox {
    async fn dead(
        &self,
        _: &str,
        after: Option<&DeadPosition>,
        most: u32,
    ) -> Result<Vec<DeadMessage>> {
        self.waits().await;
        self.state().reads += 1;
        let place = |it: &DeadPosition| (it.order_key.clone().map(|key| key.to_string()), it.id);
        let state = self.answers()?;
        let mut found: Vec<_> = state.messages.iter().map(|it| it.facts.clone()).collect();
        found.sort_by_key(|it| place(&it.position()));
        found.retain(|it| after.is_none_or(|after| place(&it.position()) > place(after)));
        found.truncate(most as usize);
        Ok(found)
    }

    async fn dead_whole(&self, _: &str, id: OutboxId) -> Result<Option<WholeDeadMessage>> {
        let state = self.answers()?;
        let mut messages = state.messages.iter();
        Ok(messages.find(|it| it.facts.id == id).cloned())
    }

    async fn order_dead(
        &self,
        _: &str,
        ids: &[OutboxId],
        order: DeadOrder,
        note: Option<&Note>,
    ) -> Result<Changed> {
        let changed = {
            let mut state = self.answers()?;
            let before = state.messages.len();
            state.messages.retain(|it| !ids.contains(&it.facts.id));
            let count = before - state.messages.len();
            let note = note.cloned().expect("every order has its note");
            state.orders.push((order, count, note));
            Changed {
                count: count as u64 - state.uncounted,
                is_audited: !state.has_no_trail,
            }
        };
        if self.state().hangs_in_orders {
            std::future::pending::<()>().await;
        }
        Ok(changed)
    }

    async fn backlog(&self, _: &str) -> Result<Backlog> {
        Ok(Backlog::default())
    }
}

/// No relay asks it.
impl OutboxStore for DeadOutbox {
    async fn lease(&self, _: &RelayName, _: Duration, _: bool) -> Result<Vec<PartitionLease>> {
        Err(unrelayed())
    }

    async fn pending(&self, _: &RelayName, _: &[PartitionLease], _: u32) -> Result<Vec<Outgoing>> {
        Err(unrelayed())
    }

    async fn sent(&self, _: &[OutboxId], _: bool) -> Result<u64> {
        Err(unrelayed())
    }

    async fn put_off(&self, _: &RelayName, _: &[Unsent]) -> Result<Vec<OutboxId>> {
        Err(unrelayed())
    }

    async fn forget(&self, _: &str, _: Duration, _: u32) -> Result<u64> {
        Err(unrelayed())
    }

    async fn leave(&self, _: &RelayName) -> Result<()> {
        Err(unrelayed())
    }

    async fn committed(&self) -> Result<()> {
        Err(unrelayed())
    }
}

fn unrelayed() -> Error {
    Error::new(ErrorKind::Unsupported, "nobody relays this outbox")
}
