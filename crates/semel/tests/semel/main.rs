//! The library as its users meet it: calls, consumers and inboxes, on every store that is built in.

mod consumer;
mod http_inbox;
mod inbox;
mod producers;
mod server;
mod sqlx;
mod stores;
mod surface;
mod testbed;
