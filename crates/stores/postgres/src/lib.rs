//! Semel's PostgreSQL store: the fleet's memory, and effects in its own transactions.
