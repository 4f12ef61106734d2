//! The `semel` binary from its users' side: a folder, a configuration, a process; its exit code, its standard
//! output and its standard error.
//!
//! The tests read effects and records by plain means: files, and tables through SQLite itself.

mod admin;
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats"))]
mod brokers;
mod check;
mod claims;
mod collector;
mod completions;
mod config;
mod control;
#[cfg(all(feature = "kafka", feature = "redis"))]
mod dashboards;
mod dead_letters;
mod dedup;
mod effect_exec;
mod effect_file;
mod effect_http;
mod effect_jsonl;
mod effect_sql;
mod effect_stdout;
mod exits;
mod explain;
mod gameday;
mod gateway;
mod in_doubt;
mod ingest;
mod init;
mod keys;
mod keys_extend;
mod keys_found;
mod keys_verbs;
mod layers;
mod lines;
mod messages;
mod metrics;
mod metrics_over_time;
#[cfg(feature = "mysql")]
mod mysql;
mod numbered;
mod operator;
mod outbox_shop;
mod output;
mod pauses;
mod plans;
#[cfg(feature = "postgres")]
mod postgres;
mod processes;
mod producers;
mod production;
mod protocol;
mod quarantine;
mod ready;
#[cfg(feature = "redis")]
mod redis;
mod relay_pauses;
mod relays;
mod remote;
mod replay;
mod secrets;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
mod servers;
mod shutdown;
mod site;
mod starts;
mod store;
mod store_verbs;
mod summary;
mod tenants;
mod tenants_run;
mod terminal;
mod tokens;
mod traced_replays;
mod traces;
mod transfer;
mod unreachable;
mod webhook;
