//! The laws over this store, and tests beyond the laws: power cuts, the stored format, reads, and lent leases.

mod batches;
mod conformance;
mod crash;
mod foreign_leases;
mod format;
mod ingest;
mod inspect;
mod producers;
mod reads;
