//! The hazards of this store: servers that die, fill up, demote, evict, forget scripts and lie about commands.
//!
//! Every test starts `redis-server` for itself, on ports of its own; `SEMEL_TEST_REDIS_SERVER` names another
//! program, such as `valkey-server`.

mod clock;
mod cluster;
mod contention;
mod crash;
mod cut;
mod expiry;
mod full;
mod index;
mod lab;
mod login;
mod planted;
mod prefix;
mod producers;
mod proxy;
mod replica;
mod scripts;
mod server;
mod settings;
mod tokens;
