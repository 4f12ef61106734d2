//! Whole pipelines: order, retries, quarantine, leases, doubt, shutdown and outages.

mod acknowledgement;
mod broker;
mod bulk;
mod dead_letters;
mod doubt;
mod figures;
mod finite_source;
mod judgement;
mod lease;
mod open;
mod order;
mod outage;
mod output;
mod pressure;
mod quarantine;
mod retry;
mod shutdown;
mod silence;
mod streamed;
mod target;
mod tenants;
mod trace;
mod transaction;
mod version;

use crate::world::message::Message;
use crate::world::{World, broker::Broker};

/// A broker with one message per key.
fn broker_with(world: &World, keys: &[&str]) -> Broker {
    let broker = world.broker();
    for key in keys {
        broker.publish(Message::of(key));
    }
    broker
}

/// `count` different keys.
fn many(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("k{number:03}")).collect()
}

/// A broker with one message for each of `count` keys.
fn broker_with_many(world: &World, count: usize) -> Broker {
    let keys = many(count);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    broker_with(world, &keys)
}
