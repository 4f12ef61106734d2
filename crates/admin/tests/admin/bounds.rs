//! The bounds of a reading: a store that is not open, one that does not answer, and too many readers.

use std::sync::Arc;

use semel_admin::{PATIENCE, READINGS};
use semel_conformance::TestClock;
use semel_core::port::store::{ListQuery, Listed, Page};
use semel_core::{AnyStore, Result, Store, forward_store};
use semel_store_memory::MemoryStore;
use tokio::time::Instant;

use crate::site::Site;

/// A store that never lists anything.
#[derive(Clone)]
pub(crate) struct Stuck(pub(crate) Arc<MemoryStore>);

impl Store for Stuck {
    async fn list(&self, _: &ListQuery) -> Result<Page<Listed>> {
        std::future::pending().await
    }

    forward_store!(self => self.0; but list);
}

#[tokio::test]
async fn a_store_that_is_not_open_is_told_and_the_worker_still_speaks() {
    let site = Site::new();
    let refused = site.refused("/v1/keys").await;
    assert_eq!(refused, (503, "store-unavailable".to_owned()));
    assert_eq!(site.good("/v1/status").await["state"], "starting");
    assert_eq!(
        site.good("/v1/pipelines").await["items"][0]["pipeline"],
        "pay"
    );
    assert!(site.good("/v1/config").await["settings"].is_object());
}

#[tokio::test]
async fn a_text_that_nothing_can_have_is_refused() {
    let site = Site::filled().await;
    let refused = (400, "invalid-input".to_owned());
    for path in ["keys?prefix=", "quarantine?reason_like="] {
        let path = format!("/v1/{path}{}", "0".repeat(1_024));
        assert_eq!(site.good(&path).await["complete"], true);
        assert_eq!(site.refused(&(path + "0")).await, refused);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_ends_a_reading_and_others_do_not_pile_up() {
    let site = Site::new();
    let memory = Arc::new(MemoryStore::new(Arc::new(TestClock::new())));
    let store = AnyStore::new(Arc::new(Stuck(memory)));
    site.lend(store);
    let begun = Instant::now();
    assert_eq!(READINGS, 2, "as many as are begun here");
    let (first, second, third) = tokio::join!(
        site.refused("/v1/keys"),
        site.refused("/v1/in-doubt"),
        site.refused("/v1/keys"),
    );
    let timed_out = (503, "timeout".to_owned());
    assert_eq!([first, second], [timed_out.clone(), timed_out]);
    assert_eq!(third, (503, "throttled".to_owned()));
    assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs());
    // What was given up has left its place.
    let good = site.good("/v1/quarantine").await;
    assert_eq!(good["complete"], true);
}
