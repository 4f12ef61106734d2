//! The error rate of an approximate store, as declared, as estimated and as measured.

use semel_core::OpId;

use super::rotating::Rotating;

/// The work of an approximate store, and the rate of its errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Claims that were skipped because their key looked finished: duplicates, and at the error rate new
    /// keys as well.
    pub skipped: u64,
    /// Operations that were completed.
    pub finished: u64,
    /// Claims of new keys that were refused because there was no room for them.
    pub refused: u64,
    /// Finished keys remembered now.
    pub remembered: u64,
    /// Operations that are not finished, in memory now.
    pub unfinished: u64,
    /// Bytes that the filters take now.
    pub filter_bytes: u64,
    /// The declared error rate.
    pub declared: f64,
    /// The error rate of the filters, as full as they are now.
    pub estimated: f64,
    /// Unused keys that were looked up to measure the rate: one for each claim.
    pub probes: u64,
    /// The count of those that looked finished.
    pub mistaken: u64,
}

impl Statistics {
    /// Returns the measured error rate, over the whole life of the store; `None` before the first claim.
    #[expect(clippy::cast_precision_loss, reason = "a share of two counts")]
    pub fn measured(&self) -> Option<f64> {
        (self.probes > 0).then(|| self.mistaken as f64 / self.probes as f64)
    }
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) skipped: u64,
    pub(super) finished: u64,
    pub(super) refused: u64,
    probes: u64,
    mistaken: u64,
}

impl Counts {
    /// Looks up a key that was never used: no hash of an operation is a small number.
    pub(super) fn probe(&mut self, finished: &Rotating) {
        self.probes += 1;
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.probes.to_le_bytes());
        let strange = finished.place(&OpId::from_bytes(bytes));
        let is_mistaken = finished.contains(strange) && !semel_core::planted("A04");
        self.mistaken += u64::from(is_mistaken);
    }

    pub(super) fn statistics(
        &self,
        finished: &Rotating,
        unfinished: usize,
        declared: f64,
    ) -> Statistics {
        Statistics {
            skipped: self.skipped,
            finished: self.finished,
            refused: self.refused,
            remembered: finished.len(),
            unfinished: unfinished as u64,
            filter_bytes: finished.bytes(),
            declared,
            estimated: finished.error_rate(),
            probes: self.probes,
            mistaken: self.mistaken,
        }
    }
}
