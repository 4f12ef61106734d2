//! Tests beyond the laws: lost answers, crashes, locks, users' transactions, values, servers that are set up wrongly.
//!
//! Most of them run on the server that `SEMEL_TEST_POSTGRES_URL` names. A test that needs a server to die or to be
//! misconfigured starts its own.

mod contention;
mod crash;
mod cuts;
mod durable;
mod given_up;
mod inbox;
mod lab;
mod large;
mod lost;
mod marks;
mod parts;
mod refused;
mod server;
mod site;
mod streak;
mod sweep;
mod time;
mod values;
