//! The description of the API, which is written by hand; tests hold the service to it.

/// The description in JSON, of version 3.1 of its format, which is served at `/v1/openapi.json`.
pub const OPENAPI: &str = include_str!("../openapi.json");

#[cfg(test)]
mod tests;
