//! The utilization of the processors: whether a step computes or waits.

use std::fs;

/// The time of all processors since the machine started, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    all: u64,
    idle: u64,
}

impl Ticks {
    /// Reads the counters of the kernel; `None` on systems without them.
    pub(crate) fn now() -> Option<Self> {
        Self::read(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the sum over the processors, the first line: user, nice, system, idle, I/O wait, and more.
    fn read(stat: &str) -> Option<Self> {
        let sum = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Option<Vec<u64>> = sum.split_whitespace().map(|it| it.parse().ok()).collect();
        let ticks = ticks?;
        Some(Self {
            // The guests' time behind these is in the first two already.
            all: ticks.iter().take(8).sum(),
            idle: ticks.iter().skip(3).take(2).sum(),
        })
    }

    /// Returns the percentage of the time since `earlier` in which the processors had work.
    pub(crate) fn percent_since(self, earlier: Self) -> Option<u64> {
        let all = self.all.checked_sub(earlier.all)?;
        let idle = self.idle.checked_sub(earlier.idle)?;
        (all.saturating_sub(idle) * 100).checked_div(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_not_work() {
        let read = |text: &str| Ticks::read(text).expect("counters");
        let before = read("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 100 0 50 800 50 0 0 0 0 0\n");
        let after = read("cpu  130 0 60 850 60 0 0 0 30 0\n");
        assert_eq!(after.percent_since(before), Some(40));
        assert_eq!(before.percent_since(before), None);
        assert_eq!(before.percent_since(after), None);
        assert_eq!(Ticks::read("intr 1\n"), None);
    }
}
