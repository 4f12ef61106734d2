//! A settlement and claims on their way at once, of which the slower does not cost the other.

use std::pin::pin;
use std::time::Duration;

use semel_core::{Admission, Result};

use super::super::desk::Asked;

/// Waits for both. Once claims were granted, whose leases run, the settlement is waited for no longer than
/// `grace`; `None` is one that did not answer by then. Given up is the wait, not the call: to report the
/// same once more is harmless.
pub(super) async fn side_by_side<T>(
    settling: impl Future<Output = Result<T>>,
    claiming: impl Future<Output = Result<Asked<Vec<Admission>>>>,
    grace: Duration,
) -> Result<(Option<T>, Asked<Vec<Admission>>)> {
    let (mut settling, mut claiming) = (pin!(settling), pin!(claiming));
    let mut settled = None;
    let claimed = loop {
        tokio::select! {
            biased;
            answer = &mut settling, if settled.is_none() => settled = Some(answer?),
            answer = &mut claiming => break answer?,
        }
    };
    if settled.is_none() {
        settled = if is_granted(&claimed) {
            let answer = tokio::time::timeout(grace, settling).await;
            answer.ok().transpose()?
        } else {
            Some(settling.await?)
        };
    }
    Ok((settled, claimed))
}

fn is_granted(asked: &Asked<Vec<Admission>>) -> bool {
    match asked {
        Asked::Answered(admissions) => admissions
            .iter()
            .any(|admission| matches!(admission, Admission::Granted(_))),
        Asked::NotNow { .. } => false,
    }
}
