//! Claims that hope for new keys, once all keys have been new for long.

use semel_core::{Admission, ClaimRequest, StateKind, Store};
use semel_store_postgres::{Options, PostgresStore};

use crate::lab::{Lab, completion, connect, request, settle, state, take};

#[tokio::test]
async fn after_many_new_keys_a_repeat_is_found_and_the_rest_of_its_batch_claimed() {
    let lab = Lab::new();
    let store = hoping(&lab).await;
    take(&store, &request("old-7", 1)).await;
    let done = settle(&store, &completion("old-7", 1, b"paid")).await;
    assert_eq!(done, StateKind::Completed);
    let batch = |round| {
        [
            request(&format!("left-{round}"), 2),
            request("old-7", 2),
            request(&format!("right-{round}"), 2),
        ]
    };
    let drawn = drawn(&lab).await;
    claim_around_a_repeat(&store, &batch(1)).await;
    let hoped = self::drawn(&lab).await;
    // Each key that is tried takes a token, so that a try that was undone shows.
    assert!(hoped - drawn > 3, "nothing was hoped for: {drawn}, {hoped}");
    claim_around_a_repeat(&store, &batch(2)).await;
    assert_eq!(self::drawn(&lab).await - hoped, 3, "hope was not given up");
    for key in ["left-1", "right-1", "left-2", "right-2"] {
        assert_eq!(state(&store, key).await, Some(StateKind::Claimed), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_who_hope_for_the_same_keys_share_them() {
    let lab = Lab::new();
    let (one, other) = (hoping(&lab).await, hoping(&lab).await);
    let batch = |worker| -> Vec<ClaimRequest> {
        (0..1_000)
            .map(|n| request(&format!("both-{n}"), worker))
            .collect()
    };
    let (mine, theirs) = (batch(1), batch(2));
    let (mine, theirs) = tokio::join!(
        one.claim(mine.clone().into()),
        other.claim(theirs.clone().into())
    );
    let (mine, theirs) = (mine.expect("answers"), theirs.expect("answers"));
    for (mine, theirs) in mine.iter().zip(&theirs) {
        let is_shared = matches!(
            (mine, theirs),
            (Admission::Granted(_), Admission::Busy { .. })
                | (Admission::Busy { .. }, Admission::Granted(_))
        );
        assert!(is_shared, "{mine:?}, {theirs:?}");
    }
}

/// Opens a store that has seen enough new keys to hope for more.
async fn hoping(lab: &Lab) -> PostgresStore {
    let mut options = Options::default();
    options.new_keys = 1 << 20;
    connect(&lab.site.url(), options).await
}

async fn claim_around_a_repeat(store: &PostgresStore, batch: &[ClaimRequest]) {
    let answers = store.claim(batch.into()).await.expect("answers");
    assert!(
        matches!(
            answers[..],
            [
                Admission::Granted(_),
                Admission::Replay { .. },
                Admission::Granted(_)
            ]
        ),
        "{answers:?}"
    );
}

/// Returns the latest token that was drawn.
async fn drawn(lab: &Lab) -> i64 {
    let latest = format!("SELECT last_value FROM {}.token", lab.schema());
    let row = lab.client().await.query_one(&latest, &[]).await;
    row.expect("a sequence").get(0)
}
