//! Calls whose caller stops waiting: they go on, and leave their connection as they found it.

use std::time::Duration;

use semel_core::{StateKind, Store};

use crate::lab::{gated, request, state, take};
use crate::lost_answers::rig::Rig;

#[tokio::test]
async fn a_call_that_is_given_up_leaves_no_transaction_to_the_next() {
    let rig = Rig::new().await;
    rig.warm().await;
    let watcher = rig.lab.client().await;
    let is_open = format!(
        "SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE state LIKE 'idle in transaction%' \
         AND relation = '{}.records'::regclass",
        rig.lab.schema()
    );
    // Each answer takes a while, so that it can be given up between two.
    rig.proxy.delay(Duration::from_millis(60));
    let batch = [gated("given up", 1, "cart", 1)];
    tokio::select! {
        biased;
        answers = rig.through.claim(batch.into()) => panic!("too fast: {answers:?}"),
        () = async {
            while watcher
                .query_one(&is_open, &[])
                .await
                .expect("a count")
                .get::<_, i64>(0)
                == 0
            {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        } => {}
    }
    rig.proxy.delay(Duration::ZERO);
    // On the only connection there is. An answer is on record, for every process to see.
    take(&rig.through, &request("next", 1)).await;
    let claimed = Some(StateKind::Claimed);
    assert_eq!(state(&rig.direct, "next").await, claimed);
    assert_eq!(state(&rig.direct, "given up").await, claimed);
}
