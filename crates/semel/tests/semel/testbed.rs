//! The kit for tests of your own handlers.

use std::time::Duration;

use semel::testing::{Fault, StoreCall, Testbed};
use semel::{Clock, Failure, OnceError, StateKind};

#[tokio::test]
async fn time_passes_by_hand() {
    let bed = Testbed::new();
    let before = bed.clock().now();
    bed.clock().advance(Duration::from_secs(3_600));
    assert_eq!(bed.clock().now().since(before).as_secs(), 3_600);
    assert!(bed.clock().clone().monotonic() >= Duration::from_secs(3_600));
    let semel = bed.semel();
    assert!(semel.once("charge", "a", async |_| Ok(())).await.is_ok());
    bed.clock().advance(Duration::from_secs(9 * 86_400));
    let again = semel
        .once("charge", "a", async |_| Ok(()))
        .await
        .expect("it ran");
    assert!(!again.is_replay(), "the window is over");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_loses_its_store_leaves_its_keys_to_their_class() {
    let bed = Testbed::new();
    let (lost, faults) = bed.failing();
    let losing = faults.clone();
    let charged = lost.once("charge", "a", async move |_| {
        losing.always(Fault::Cut);
        Ok(1_u64)
    });
    assert!(matches!(charged.await, Err(OnceError::Unrecorded { .. })));
    bed.clock().advance(Duration::from_secs(3_600));
    let next = bed.semel();
    let effect = async |_| -> Result<u64, Failure> { panic!("this effect must not run") };
    let doubt = next.once("charge", "a", effect).await;
    assert!(matches!(doubt, Err(OnceError::InDoubt { .. })));
    // The process comes back, and its late report is evidence.
    faults.always(None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let replay = next.once("charge", "a", effect).await.expect("a replay");
    assert_eq!(*replay.value(), 1);
}

#[tokio::test]
async fn faults_befall_the_calls_that_they_are_meant_for() {
    let bed = Testbed::new();
    let (semel, faults) = bed.failing();
    faults.next(StoreCall::Settle, Fault::Poison);
    let unrecorded = semel.once("charge", "a", async |_| Ok(())).await;
    assert!(matches!(unrecorded, Err(OnceError::Unrecorded { .. })));
    assert_eq!(faults.calls(), 2);
    let record = semel
        .operation("charge")
        .record("a")
        .await
        .expect("the store answers");
    assert_eq!(
        record.map(|record| record.state.kind()),
        Some(StateKind::Started)
    );
    let other = bed.semel();
    assert!(other.once("charge", "b", async |_| Ok(())).await.is_ok());
    assert_eq!(faults.calls(), 2, "of this process only");
    assert_eq!(
        bed.events(),
        ["granted a attempt 1", "granted b attempt 1", "completed b"]
    );
}
