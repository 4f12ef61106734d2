//! Places that cannot be used.

use semel_core::Error;

use super::{Finding, fail};

/// Finds that a worker could not listen with the certificate of its source.
pub fn certificate_refused(error: &Error) -> Finding {
    let advice = "correct `source.tls`; check as the user that runs the worker";
    fail("source-unavailable", error.to_string(), advice)
}

/// Finds that messages of a pipeline could go nowhere: those of `whose`, such as `the effect`.
pub fn target_unavailable(whose: &str, error: &Error) -> Finding {
    let advice = "correct the setting, or make what it names";
    fail("target-unavailable", format!("of {whose}: {error}"), advice)
}
