//! The output of the laws about admitting: the written bytes, and their mark.

use semel_core::port::checkpoint::CheckpointStore;
use semel_core::{Admission, ClaimRequest, Mark, Operation, Record, Result, Store};

use crate::lab::{Lab, answered};

/// The records of a batch, in its order.
pub(super) async fn records(lab: &Lab, batch: &[ClaimRequest]) -> Vec<Option<Record>> {
    let operations: Vec<Operation> = batch.iter().map(|it| it.operation.clone()).collect();
    let records = lab.store().get(operations.into()).await;
    answered(records, "get")
}

/// Admits, and expects one answer per request and the mark of `out` written.
pub(super) async fn admitted(lab: &Lab, batch: &[ClaimRequest], value: u64) -> Vec<Admission> {
    let answers = admit(lab, batch, move |_| Ok(to("out", value))).await;
    let answers = answered(answers, "admit_with");
    assert_eq!(answers.len(), batch.len(), "one answer per request");
    answers
}

pub(super) async fn admit(
    lab: &Lab,
    batch: &[ClaimRequest],
    write: impl FnOnce(&[Admission]) -> Result<Mark> + Send + 'static,
) -> Result<Vec<Admission>> {
    let checkpoint = lab.subject().checkpoint();
    checkpoint.admit_with(batch.to_vec(), Box::new(write)).await
}

pub(super) fn to(name: &str, value: u64) -> Mark {
    Mark {
        name: name.into(),
        value,
    }
}
