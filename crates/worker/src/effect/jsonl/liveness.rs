//! The child's last sign of life, as far as it matters to a waiting request.
//!
//! A child may work through its requests one by one. A request far back in that queue is not stuck
//! as long as those before it are answered; so an answer counts for all requests that came after
//! its own, and not for those before, which it has overtaken.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The latest answers that matter.
#[derive(Debug)]
pub(super) struct Liveness {
    /// Answers closer together than this are one.
    grain: Duration,
    /// Ids with the times of their answers; both rise. An answer makes those to higher ids
    /// irrelevant: a request that came after them came after it too.
    answers: Mutex<Vec<(u64, Instant)>>,
}

impl Liveness {
    /// An empty list. `timeout` is the time for which a request waits for a sign of life.
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            grain: timeout / 16,
            answers: Mutex::default(),
        }
    }

    /// Notes that the request `id` was answered.
    pub(super) fn answered(&self, id: u64, now: Instant) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|(earlier, at)| *earlier < id && now.duration_since(*at) <= self.grain * 16);
        let is_news = |(_, at): &(u64, Instant)| now.duration_since(*at) > self.grain;
        if answers.last().is_none_or(is_news) {
            answers.push((id, now));
        }
    }

    /// The time of the last answer to a request before `id`, if it was not long ago.
    pub(super) fn before(&self, id: u64) -> Option<Instant> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = answers.partition_point(|(earlier, _)| *earlier < id);
        answers[..earlier].last().map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_for_those_after_it_alone_and_little_is_kept() {
        let liveness = Liveness::new(Duration::from_secs(16));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        liveness.answered(5, at(0));
        liveness.answered(9, at(2));
        assert_eq!(
            [liveness.before(5), liveness.before(6)],
            [None, Some(at(0))]
        );
        assert_eq!(liveness.before(10), Some(at(2)));
        liveness.answered(7, at(4));
        assert_eq!(
            [liveness.before(7), liveness.before(10)],
            [Some(at(0)), Some(at(4))]
        );
        for id in 0..100_000 {
            liveness.answered(100 + id, at(5) + Duration::from_millis(id));
        }
        assert!(liveness.answers.lock().expect("no panic").len() <= 18);
        let last = liveness.before(u64::MAX).expect("heard of");
        assert!(at(5 + 99) - last < Duration::from_secs(2));
    }
}
