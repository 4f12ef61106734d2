//! The size of a run.

/// The size that every merge can wait for, or that of a published figure: `SEMEL_TORTURE=campaign`.
///
/// # Panics
///
/// If `SEMEL_TORTURE` has another value, so that a small run is not mistaken for a campaign.
pub fn scaled<T>(merge: T, campaign: T) -> T {
    match std::env::var("SEMEL_TORTURE").as_deref() {
        Err(_) => merge,
        Ok("campaign") => campaign,
        Ok(other) => panic!("SEMEL_TORTURE is {other:?}; there is only `campaign`"),
    }
}
