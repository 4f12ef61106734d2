//! Records of keys: as rows, in full, and explained.

mod detail;
mod entry;
mod explanation;
mod extension;

pub use detail::describe_bytes;
pub use explanation::Command;
