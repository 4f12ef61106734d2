//! A settlement and claims that are under way at once; the slower call does not hold up the other.

use std::pin::pin;
use std::time::Duration;

use semel_core::{Admission, Result};

use super::super::store_calls::Asked;

/// Waits for both calls. Once claims were granted, whose leases run, it waits for the settlement no longer
/// than `grace`; `None` is a settlement that did not answer by then. The wait is given up, not the call:
/// reporting the same once more is harmless. Where nothing is to begin under these claims any more, `longer` is how
/// long it goes on waiting for the same call: they only have to be given back while their leases run.
pub(super) async fn side_by_side<T>(
    settling: impl Future<Output = Result<T>>,
    claiming: impl Future<Output = Result<Asked<Vec<Admission>>>>,
    (grace, longer): (Duration, impl Fn() -> Option<Duration>),
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
            let mut answer = tokio::time::timeout(grace, settling.as_mut()).await;
            if answer.is_err()
                && let Some(longer) = longer()
            {
                answer = tokio::time::timeout(longer, settling).await;
            }
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
