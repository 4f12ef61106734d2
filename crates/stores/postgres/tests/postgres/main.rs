//! Tests beyond the laws: lost answers, crashes, locks, users' transactions, values, servers that are set up wrongly.
//!
//! Most of them run on the server that `SEMEL_TEST_POSTGRES_URL` names. A test that needs a server to die or to be
//! misconfigured starts its own.

mod cancellation;
mod contention;
mod crash;
mod cuts;
mod durable;
mod inbox;
mod ingest;
mod lab;
mod large;
mod lost_answers;
mod marks;
mod new_key_run;
mod outbox;
mod parts;
mod producers;
mod refusals;
mod server;
mod site;
mod sweep;
mod time;
mod values;
