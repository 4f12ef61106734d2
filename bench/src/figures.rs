//! Medians with their spread, and the clock that benchmarks are allowed to read.

use std::fmt;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// Figures of several slices.
pub(crate) struct Figures(Vec<f64>);

impl Figures {
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        Self(figures)
    }

    pub(crate) fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// The ratios to `other`, slice by slice.
    pub(crate) fn ratios(ours: &[f64], theirs: &[f64]) -> Self {
        Self::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = (self.0[0], self.0[self.0.len() - 1]);
        let median = self.median();
        if median >= 1_000.0 {
            write!(
                f,
                "{:.0} k [{:.0}..{:.0}]",
                median / 1e3,
                least / 1e3,
                most / 1e3
            )
        } else {
            write!(f, "{median:.2} [{least:.2}..{most:.2}]")
        }
    }
}

/// A clock that runs from the moment it was made.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The time that `work` takes.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let value = work();
    (start.elapsed(), value)
}

/// The cost of one durable write on this machine, to be read beside every other figure.
pub(crate) fn sync_micros() -> f64 {
    let mut file = tempfile::tempfile_in(".").expect("a file in the current folder");
    let micros = (0..200).map(|_| {
        let (taken, ()) = timed(|| {
            file.write_all(&[7; 4096]).expect("a write");
            file.sync_data().expect("a sync");
        });
        taken.as_secs_f64() * 1e6
    });
    Figures::of(micros.collect::<Vec<_>>()).median()
}
