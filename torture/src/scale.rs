//! How much a run does.

/// As much as every merge can wait for, or as much as a published figure takes: `SEMEL_TORTURE=campaign`.
///
/// # Panics
///
/// If `SEMEL_TORTURE` is something else, so that nobody takes a small run for a campaign.
pub fn scaled<T>(merge: T, campaign: T) -> T {
    match std::env::var("SEMEL_TORTURE").as_deref() {
        Err(_) => merge,
        Ok("campaign") => campaign,
        Ok(other) => panic!("SEMEL_TORTURE is {other:?}; there is only `campaign`"),
    }
}
