//! Leases that were given to other processes, over a reopening: their holders may still be at work.

use std::sync::Arc;
use std::time::Duration;

use semel_conformance::TestClock;
use semel_core::{
    Admission, ClaimId, ClaimRequest, Clock, Key, Outcome, Recovery, Renewal, Renewed, Result,
    Scope, Settled, Settlement, Start, Step, Store, StoreExt, VersionGate, Window,
};
use semel_store_embedded::{EmbeddedStore, LentStore, Options};
use tempfile::TempDir;

const LEASE: Duration = Duration::from_secs(10);

struct Site {
    dir: TempDir,
    clock: TestClock,
}

impl Site {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a folder"),
            clock: TestClock::new(),
        }
    }

    fn open(&self) -> Result<Arc<EmbeddedStore>> {
        let clock = Arc::new(self.clock.clone());
        EmbeddedStore::open(self.dir.path(), clock, Options::default()).map(Arc::new)
    }

    /// Returns the time until a claim with this id may be had of the key; `None` where it was granted.
    async fn busy_for(
        &self,
        store: &impl Store,
        request: &ClaimRequest,
    ) -> Result<Option<Duration>> {
        match store.claim_one(request.clone()).await? {
            Admission::Granted(_) => Ok(None),
            Admission::Busy { until, .. } => Ok(Some(until.since(self.clock.now()))),
            other => panic!("{other:?}"),
        }
    }
}

fn request(key: &str, claim: u128) -> ClaimRequest {
    let scope = Scope::new("", "pay").expect("a scope");
    ClaimRequest {
        lease: LEASE,
        start: Start::Marked(Recovery::Rerun),
        ..ClaimRequest::new(
            scope,
            Key::new(key).expect("a key"),
            ClaimId::from_u128(claim),
        )
    }
}

#[tokio::test]
async fn a_lease_of_another_process_outlives_the_one_that_gave_it() -> Result<()> {
    let site = Site::new();
    let store = site.open()?;
    let lent = LentStore::new(Arc::clone(&store));
    assert_eq!(site.busy_for(&lent, &request("verb", 1)).await?, None);
    assert_eq!(site.busy_for(&*store, &request("own", 2)).await?, None);
    drop((store, lent));

    let store = site.open()?;
    assert_eq!(
        site.busy_for(&*store, &request("own", 3)).await?,
        None,
        "whoever had it is gone"
    );
    let wait = site.busy_for(&*store, &request("verb", 4)).await?;
    assert_eq!(wait, Some(LEASE), "whoever has it may be at work");
    // Reopened once more, before it is over.
    drop(store);
    site.clock.advance(Duration::from_secs(4));
    let store = site.open()?;
    let wait = site.busy_for(&*store, &request("verb", 4)).await?;
    assert_eq!(wait, Some(Duration::from_secs(6)));
    // The holder reports to the process that has the store open by then.
    let settlement = Settlement {
        operation: request("verb", 1).operation,
        claim_id: ClaimId::from_u128(1),
        step: Step::Complete {
            outcome: Outcome::empty(),
            window: Window::DEFAULT,
        },
    };
    let settled = store.settle([settlement].into()).await?;
    assert!(matches!(settled[..], [Settled::Now(_)]), "{settled:?}");
    Ok(())
}

/// A client of the claim API that declares no class: nothing is marked, and its lease counts all the same.
#[tokio::test]
async fn a_lease_without_a_mark_outlives_the_process_as_well() -> Result<()> {
    let site = Site::new();
    let unmarked = |key: &str, claim| ClaimRequest {
        start: Start::Unmarked,
        ..request(key, claim)
    };
    let store = site.open()?;
    let lent = LentStore::new(Arc::clone(&store));
    assert_eq!(site.busy_for(&lent, &unmarked("client", 1)).await?, None);
    assert_eq!(site.busy_for(&*store, &unmarked("own", 2)).await?, None);
    drop((store, lent));

    let lent = LentStore::new(site.open()?);
    assert_eq!(site.busy_for(&lent, &unmarked("own", 3)).await?, None);
    let wait = site.busy_for(&lent, &unmarked("client", 4)).await?;
    assert_eq!(wait, Some(LEASE), "whoever has it may be at work");
    let Admission::Granted(claim) = lent.claim_one(unmarked("client", 1)).await? else {
        panic!("its holder asks again");
    };
    assert!(claim.resumed, "{claim:?}");
    Ok(())
}

#[tokio::test]
async fn it_is_taken_over_when_it_is_over_and_the_next_one_is_of_whoever_took_it() -> Result<()> {
    let site = Site::new();
    let lent = LentStore::new(site.open()?);
    assert_eq!(site.busy_for(&lent, &request("verb", 1)).await?, None);
    drop(lent);
    let store = site.open()?;
    site.clock.advance(LEASE);
    assert_eq!(site.busy_for(&*store, &request("verb", 2)).await?, None);
    drop(store);
    let store = site.open()?;
    assert_eq!(
        site.busy_for(&*store, &request("verb", 3)).await?,
        None,
        "that one ended with its process"
    );
    Ok(())
}

#[tokio::test]
async fn a_renewal_of_it_is_durable() -> Result<()> {
    let site = Site::new();
    let lent = LentStore::new(site.open()?);
    assert_eq!(site.busy_for(&lent, &request("verb", 1)).await?, None);
    site.clock.advance(Duration::from_secs(8));
    let renewal = Renewal {
        operation: request("verb", 1).operation,
        claim_id: ClaimId::from_u128(1),
        lease: LEASE,
    };
    let renewed = lent.renew([renewal].into()).await?;
    assert!(matches!(renewed[..], [Renewed::Until(_)]), "{renewed:?}");
    drop(lent);
    let store = site.open()?;
    let wait = site.busy_for(&*store, &request("verb", 2)).await?;
    assert_eq!(wait, Some(LEASE));
    Ok(())
}

#[tokio::test]
async fn its_entity_is_held_as_long_and_a_started_claim_keeps_it() -> Result<()> {
    let gated = |key: &str, claim, version| {
        let entity = Key::new("account-7").expect("an entity");
        ClaimRequest {
            gate: Some(VersionGate { entity, version }),
            start: Start::Unmarked,
            ..request(key, claim)
        }
    };
    let site = Site::new();
    let lent = LentStore::new(site.open()?);
    let first = gated("verb", 1, 1);
    assert_eq!(site.busy_for(&lent, &first).await?, None);
    let start = Settlement {
        operation: first.operation,
        claim_id: ClaimId::from_u128(1),
        step: Step::Start {
            recovery: Recovery::Rerun,
            has_begun: false,
        },
    };
    let started = lent.settle([start].into()).await?;
    assert!(matches!(started[..], [Settled::Now(_)]), "{started:?}");
    drop(lent);
    let store = site.open()?;
    let wait = site.busy_for(&*store, &request("verb", 2)).await?;
    assert_eq!(wait, Some(LEASE), "the key");
    let wait = site.busy_for(&*store, &gated("other", 3, 2)).await?;
    assert_eq!(wait, Some(LEASE), "the entity");
    Ok(())
}
