//! Batches that are admitted together with a mark.

use std::panic::{AssertUnwindSafe, catch_unwind};

use semel_core::port::checkpoint::Write;
use semel_core::{Admission, ClaimRequest, Error, ErrorKind, Mark, Result, Timestamp};

use super::Committer;
use crate::digest::Addresses;
use crate::error;
use crate::limits::{MAX_TAIL, check_len};

impl Committer {
    /// Admits a batch, writes its output, and adds the resulting mark; on failure nothing changes.
    /// One frame holds it all.
    pub(super) fn admit_with(
        &mut self,
        batch: &[ClaimRequest],
        addresses: &Addresses,
        write: Write,
        now: Timestamp,
    ) -> Result<Vec<Admission>> {
        let savepoint = self.ledger.savepoint();
        let begun = self.ledger.pending_len();
        let admissions = self.ledger.admit(batch, addresses, now);
        let len = self.ledger.pending_len() - begun;
        let written = if len > MAX_TAIL {
            let what = "batch that is admitted together";
            Err(error::too_large(what, len, MAX_TAIL))
        } else {
            write_output(write, &admissions)
        };
        match written {
            Ok(mark) => {
                self.ledger.set_mark(&mark);
                Ok(admissions)
            }
            Err(error) => {
                self.ledger.go_back(&savepoint);
                Err(error)
            }
        }
    }
}

/// Runs the caller's `write`. A panic in it must not take the committer down, nor leave half a
/// batch.
fn write_output(write: Write, admissions: &[Admission]) -> Result<Mark> {
    let written = catch_unwind(AssertUnwindSafe(|| write(admissions)));
    let mark = written.unwrap_or_else(|_| {
        let message = "writing the output of a batch panicked; nothing of the batch was kept";
        Err(Error::new(ErrorKind::Internal, message).not_applied())
    })?;
    check_len(mark.name.len(), "name of the mark")?;
    Ok(mark)
}
