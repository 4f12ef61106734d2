//! Panics that are provoked, caught, and reported with what provoked them.

/// Runs `provoke` without printing its panics; a backtrace of each would hide the report.
pub(crate) fn quietly<T>(provoke: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let answer = provoke();
    std::panic::set_hook(hook);
    answer
}
