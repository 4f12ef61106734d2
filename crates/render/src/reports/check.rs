//! The reports of `semel check`.

mod pipeline;
mod production;
mod services;
mod windows;

pub use windows::WindowLine;

/// A number of bytes in the largest unit that it fills, with two digits.
pub fn bytes_text(count: u64) -> String {
    indicatif::BinaryBytes(count).to_string()
}
