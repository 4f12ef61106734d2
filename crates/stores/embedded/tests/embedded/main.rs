//! The laws over this store, and tests beyond the laws: power cuts, the stored format, reads, and lent leases.

mod conformance;
mod crash;
mod format;
mod inspect;
mod lent;
mod reads;
mod together;
