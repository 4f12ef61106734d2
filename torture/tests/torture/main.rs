//! Real workers, stores and brokers, killed at bad moments: a module for each store, broker or way of working
//! under torture. One program, since most of them wait more than they work, so that several run at once.

mod amqp;
mod backlog;
mod certainty;
mod chain;
mod claim_steps;
mod claims;
mod dedup;
mod disk;
mod gateway;
mod ingest;
mod kafka;
mod kill;
mod mixed;
mod mysql;
mod nats;
mod orders;
mod outage;
mod outbox;
mod postgres;
mod publication;
mod redis;
mod redis_cluster;
mod streamed;
mod versions;
mod webhook;
mod zombie;
