//! Effect and record in one call within a user's own transaction, over the drivers of the stores.

#[path = "stores/server.rs"]
mod server;

#[path = "inbox/mysql.rs"]
mod mysql;
#[path = "inbox/postgres.rs"]
mod postgres;
#[path = "inbox/sqlite.rs"]
mod sqlite;
