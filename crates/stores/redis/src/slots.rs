//! Maps keys to slots, and slots to the nodes of a cluster.

use redis::{Cmd, Value};

use crate::config::Address;

/// The ranges of slots, with the nodes that serve them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Vec<(u16, u16, Address)>);

impl Slots {
    /// Reads the answer to `CLUSTER SLOTS`; a node without a host is the one that was asked.
    pub(crate) fn read(value: &Value, asked: &Address) -> Self {
        let ranges = list(value).iter().filter_map(|range| {
            let [Value::Int(from), Value::Int(to), primary, ..] = list(range) else {
                return None;
            };
            let [host, Value::Int(port), ..] = list(primary) else {
                return None;
            };
            let host = text(host).filter(|host| !host.is_empty() && *host != "?");
            let host = host.unwrap_or(&asked.host).into();
            let port = u16::try_from(*port).ok()?;
            Some((
                u16::try_from(*from).ok()?,
                u16::try_from(*to).ok()?,
                Address { host, port },
            ))
        });
        Self(ranges.collect())
    }

    pub(crate) fn serving(&self, slot: u16) -> Option<&Address> {
        let mut ranges = self.0.iter().rev();
        ranges.find_map(|(from, to, node)| (*from..=*to).contains(&slot).then_some(node))
    }

    /// Returns every node that serves something, once.
    pub(crate) fn nodes(&self) -> Vec<Address> {
        let mut nodes: Vec<Address> = Vec::new();
        for (_, _, node) in &self.0 {
            if !nodes.contains(node) {
                nodes.push(node.clone());
            }
        }
        nodes
    }

    /// Returns a copy with one slot served by another node.
    pub(crate) fn with(&self, slot: u16, node: Address) -> Self {
        let mut ranges = self.0.clone();
        ranges.push((slot, slot, node));
        Self(ranges)
    }
}

/// Returns the command that asks a node about slots.
pub(crate) fn slots_command() -> Cmd {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    command
}

/// Returns the slot of a hash tag.
pub(crate) fn slot_of(tag: &str) -> u16 {
    let mut crc = 0_u16;
    for byte in tag.bytes() {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            };
        }
    }
    crc % SLOTS
}

fn list(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => &[],
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// Slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(slot_of("123456789"), 0x31c3);
        assert_eq!(slot_of("user1000"), 3443);
    }

    #[test]
    fn a_node_without_a_host_is_the_one_that_was_asked() {
        let node = |host: Value, port| Value::Array(vec![host, Value::Int(port), Value::Nil]);
        let range = |from, to, node| Value::Array(vec![Value::Int(from), Value::Int(to), node]);
        let told = Value::Array(vec![
            range(0, 8_000, node(Value::Nil, 7_000)),
            range(8_001, 16_383, node(Value::BulkString(b"b".to_vec()), 7_001)),
        ]);
        let asked = Address {
            host: "a".into(),
            port: 7_000,
        };
        let slots = Slots::read(&told, &asked);
        let serving = |slot| slots.serving(slot).map(ToString::to_string);
        assert_eq!(serving(8_000).as_deref(), Some("a:7000"));
        assert_eq!(serving(8_001).as_deref(), Some("b:7001"));
        let moved = slots.with(
            8_000,
            Address {
                host: "c".into(),
                port: 7_002,
            },
        );
        assert_eq!(
            moved.serving(8_000).map(ToString::to_string).as_deref(),
            Some("c:7002")
        );
        assert_eq!(moved.nodes().len(), 3);
    }
}
