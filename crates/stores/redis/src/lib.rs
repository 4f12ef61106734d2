//! Semel's store in Redis and Valkey, one machine or a cluster.
