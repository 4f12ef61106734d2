//! Real processes, `kill -9`, real stores: the harness that tries to break Semel.
//!
//! The oracle is the outside world (a table, a file, a child's own log), read with plain means and
//! never through Semel. The output of a failure includes the seed, which fixes the input and the
//! moments of the kills, though not the machine's own timing.

mod api;
mod broker;
mod class;
mod disk;
mod figures;
mod gateways;
mod hooks;
mod http;
mod ingest;
mod kafka;
mod leases;
mod lines;
mod matrix;
mod moments;
mod mysql;
mod nats;
mod outbox;
mod payments;
mod postgres;
mod provider;
mod publication;
mod rabbitmq;
mod ready;
mod redis;
mod redis_cluster;
mod restarts;
mod scale;
mod shop;
mod storm;
mod versions;
mod worker;
mod workers;

pub use api::{Api, Arrival, Temper};
pub use broker::{Broker, Publish};
pub use class::Class;
pub use disk::Disk;
pub use figures::tell;
pub use gateways::each_key_has_one_end;
pub use hooks::each_event_happens_once;
pub use http::{Broken, Connection, Reply};
pub use ingest::each_message_is_booked_once;
pub use kafka::Kafka;
pub use leases::{Server, Under, held_once};
pub use lines::{LineKey, Lines};
pub use matrix::{Keep, happens_once};
pub use moments::Moments;
pub use mysql::Mysql;
pub use nats::Nats;
pub use outbox::{
    Origin, Target, orders_arrive_end_to_end, serve_orders, what_is_committed_arrives,
};
pub use payments::{Payment, Payments, Stream};
pub use postgres::Postgres;
pub use provider::Provider;
pub use publication::a_file_is_published_whole;
pub use rabbitmq::RabbitMq;
pub use ready::readiness;
pub use redis::{Log, Redis};
pub use redis_cluster::RedisCluster;
pub use restarts::{Handover, Speech, replaced_under_load};
pub use scale::scaled;
pub use shop::{Listed, Shop};
pub use storm::{Crew, Figures, Kind, Storm};
pub use versions::Versions;
pub use worker::{Run, Site, Summary};
