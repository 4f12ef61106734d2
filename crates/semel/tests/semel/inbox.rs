//! Effect and record in one call within a user's own transaction, over the drivers of the stores.

mod mysql;
mod postgres;
mod sqlite;
