//! Readers of an outbox, as relays are: their names, their leases, and what they read.

use std::time::Duration;

use semel_core::outbox::{OutboxMessage, Outgoing, PartitionLease};
use semel_core::port::outbox::{OutboxStore, RelayName};

/// Returns a message of stream `orders`.
pub fn message(text: &str, key: Option<&str>) -> OutboxMessage {
    let message = OutboxMessage::new("orders", text.to_owned());
    match key {
        Some(key) => message.ordered_by(key),
        None => message,
    }
}

/// Returns the name of the relay of stream `orders`, in this process.
pub fn relay(process: &str) -> RelayName {
    RelayName {
        name: "out".into(),
        stream: "orders".into(),
        sink: "file orders.ndjson".into(),
        process: process.into(),
    }
}

/// Takes the leases of a process, in the order of their partitions, for longer than a test lasts.
///
/// # Panics
///
/// When the outbox gives none.
pub async fn leases(outbox: &impl OutboxStore, process: &str) -> Vec<PartitionLease> {
    let relay = relay(process);
    let leases = outbox.lease(&relay, LEASE, true);
    let mut leases = leases.await.expect("leases");
    leases.sort_by_key(|it| it.partition);
    leases
}

/// Returns the lease of the partition that a message is in.
///
/// # Panics
///
/// When there is none among these.
pub fn lease_of(leases: &[PartitionLease], message: &Outgoing) -> PartitionLease {
    let mut leases = leases.iter().copied();
    let lease = leases.find(|it| it.partition == message.partition);
    lease.expect("the lease of its partition")
}

/// Reads what a process is to publish next.
///
/// # Panics
///
/// When the outbox does not answer.
pub async fn read(
    outbox: &impl OutboxStore,
    process: &str,
    leases: &[PartitionLease],
) -> Vec<Outgoing> {
    let seen = outbox.pending(&relay(process), leases, 400).await;
    seen.expect("messages")
}

/// Reads the texts of what a process is to publish next.
///
/// # Panics
///
/// When the outbox does not answer.
pub async fn pending(
    outbox: &impl OutboxStore,
    process: &str,
    leases: &[PartitionLease],
) -> Vec<String> {
    texts(&read(outbox, process, leases).await)
}

/// Returns the payloads of messages as texts.
pub fn texts(messages: &[Outgoing]) -> Vec<String> {
    let texts = messages
        .iter()
        .map(|it| String::from_utf8_lossy(&it.payload).into_owned());
    texts.collect()
}

/// The time for which [`leases`] are asked for.
pub(super) const LEASE: Duration = Duration::from_secs(300);
