//! Threads that only use up the processors, so that a run shows which tests depend on time.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Busy loops, which end when this is dropped.
pub(super) struct BusyLoops {
    over: Arc<AtomicBool>,
    loops: Vec<JoinHandle<()>>,
}

impl BusyLoops {
    /// Starts `count` of them.
    pub(super) fn start(count: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let spun = (0..count).map(|_| {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            })
        });
        Self {
            loops: spun.collect(),
            over,
        }
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for spun in self.loops.drain(..) {
            // A loop cannot panic.
            let _ended = spun.join();
        }
    }
}
