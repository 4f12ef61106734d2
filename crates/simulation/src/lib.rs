//! The worlds in which the engine is tested, by its own tests and by the proof.
//!
//! [`on_cue`] fails on cue: a test says which call of which worker fails, and how. In [`seeded`] a
//! seed decides that, scenario by scenario. Nothing here is for production.

#[expect(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    clippy::return_self_not_must_use,
    reason = "the words of tests, which panic where a test fails"
)]
pub mod on_cue;
pub mod seeded;
