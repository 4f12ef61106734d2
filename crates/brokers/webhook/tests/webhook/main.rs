//! The laws of the source port with a provider that sends again, and the answers to single requests.

mod flood;
mod laws;
mod lender;
mod provider;
mod requests;
mod sharing;
