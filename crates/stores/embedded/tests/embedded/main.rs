//! The laws over this store, and what the laws do not say: power cuts, the stored format, reads, and what is lent.

mod conformance;
mod crash;
mod format;
mod inspect;
mod lent;
mod reads;
mod together;
