//! Known bugs, for the suite to prove that it sees them.

/// Returns whether this process has the bug of that name. Only builds with `--cfg semel_planted` have
/// any, and of those the one that `SEMEL_PLANTED` names.
#[cfg(semel_planted)]
pub fn planted(bug: &str) -> bool {
    static PLANTED: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("SEMEL_PLANTED").ok());
    PLANTED.as_deref() == Some(bug)
}

/// Returns whether this process has the bug of that name: no build has, but for the proof.
#[cfg(not(semel_planted))]
#[inline]
pub const fn planted(_bug: &str) -> bool {
    false
}
