//! The longest time of all attempts of one message together. The engine makes the attempts.

use std::time::Duration;

use semel_config::PipelineSettings;
use semel_core::Backoff;
use semel_worker::settings::EffectSettings;

/// Returns the longest time of all attempts of one message, with the waits between them.
pub fn longest(settings: &PipelineSettings) -> Duration {
    let pipeline = &settings.pipeline;
    let timeout = timeout(&settings.effect).unwrap_or_default();
    all(pipeline.limits.failed.get(), pipeline.backoff, timeout)
}

/// Returns the timeout of a call of the effect, if the effect is a call.
pub fn timeout(effect: &EffectSettings) -> Option<Duration> {
    match effect {
        EffectSettings::Http(settings, _) => Some(settings.timeout),
        EffectSettings::Exec(settings, _) => Some(settings.timeout),
        EffectSettings::Jsonl(settings, _) => Some(settings.timeout),
        EffectSettings::Publish(settings) => Some(settings.target.timeout()),
        EffectSettings::Streamed(settings) => settings.transform.as_ref().map(|it| it.timeout),
        EffectSettings::Sql(_) | EffectSettings::File { .. } | EffectSettings::Stdout(_) => None,
    }
}

/// Sums up every call, and every wait between two of them.
fn all(attempts: u32, backoff: Backoff, timeout: Duration) -> Duration {
    let waits = attempts.saturating_sub(1);
    let growing = (1..=waits.min(MOST_DOUBLINGS)).map(|failed| backoff.after(failed));
    let growing = growing.fold(Duration::ZERO, Duration::saturating_add);
    let rest = waits.saturating_sub(MOST_DOUBLINGS);
    let rest = backoff.after(MOST_DOUBLINGS).saturating_mul(rest);
    let calls = timeout.saturating_mul(attempts);
    calls.saturating_add(growing).saturating_add(rest)
}

/// The number of doublings after which every wait is as long as the one before.
const MOST_DOUBLINGS: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_attempts_together_take_their_calls_and_the_waits_between() {
        let secs = Duration::from_secs;
        let backoff = |first, most| Backoff {
            first: secs(first),
            most: secs(most),
        };
        assert_eq!(all(1, backoff(1, 9), secs(5)), secs(5));
        assert_eq!(all(5, backoff(1, 4), secs(0)), secs(1 + 2 + 4 + 4));
        assert_eq!(all(5, backoff(1, 4), secs(10)), secs(50 + 11));
        let one_by_one = (1..1_000).map(|failed| backoff(1, 60).after(failed));
        assert_eq!(
            all(1_000, backoff(1, 60), secs(0)),
            one_by_one.sum::<Duration>()
        );
        let forever = all(u32::MAX, backoff(u64::MAX, u64::MAX), secs(1));
        assert_eq!(forever, Duration::MAX);
    }
}
