//! The MySQL store's own hazards: its server, its locks, its tables. Some tests have a server of their
//! own, which they kill, make read-only, or set up as badly as it can be.

mod apply;
mod crash;
mod database;
mod database_pool;
mod faults;
mod inbox;
mod ingest;
mod inspection;
mod lab;
mod locks;
mod marks;
mod outbox;
mod own;
mod planted;
mod producers;
mod proxy;
mod refusals;
mod settings;
mod tables;
mod tls;
mod tokens;
