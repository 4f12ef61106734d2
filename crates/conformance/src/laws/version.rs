//! The version gate: an older or equal version of an entity is stale, and one claim works on it.

use std::sync::Arc;
use std::time::Duration;

use semel_core::decide::{Order, Verdict};
use semel_core::{Admission, ClaimRequest, Operation, Recovery, StateKind};

use crate::lab::{Lab, gate, scope_of};
use crate::steps::{
    LONG_WINDOW, complete, complete_for, fail, late_start, outcome, release, release_unsure, start,
};

/// Higher versions are granted one after the other.
pub async fn rising_versions_are_granted(lab: Lab) {
    for version in [1, 2, 10] {
        lab.finish(&gated(&lab, "cart", version), complete("done"))
            .await;
    }
}

/// The version that was applied is stale under any other key.
pub async fn an_equal_version_is_stale(lab: Lab) {
    lab.finish(&gated(&lab, "cart", 5), complete("done")).await;
    let same = ClaimRequest {
        gate: Some(gate("cart", 5)),
        ..lab.request("another key", 9)
    };
    lab.stale(&same, 5).await;
}

/// A version that comes after a later one is stale, and leaves no record.
pub async fn a_lower_version_is_stale(lab: Lab) {
    lab.finish(&gated(&lab, "cart", 5), complete("done")).await;
    let lower = gated(&lab, "cart", 4);
    lab.stale(&lower, 5).await;
    assert_eq!(lab.get(&lower.operation).await, None);
    lab.stale(&gated(&lab, "cart", 1), 5).await;
}

/// A version that was not applied makes nothing stale.
pub async fn a_version_that_was_not_applied_makes_nothing_stale(lab: Lab) {
    let released = lab.grant(&gated(&lab, "cart", 5)).await;
    lab.settles(&released, release(), StateKind::Released).await;
    let dead = lab.grant(&gated(&lab, "cart", 6)).await;
    lab.settles(&dead, fail(), StateKind::Dead).await;
    lab.finish(&gated(&lab, "cart", 4), complete("done")).await;
}

/// A released version is overtaken by a later one.
pub async fn an_overtaken_version_is_stale(lab: Lab) {
    let first = lab.grant(&gated(&lab, "cart", 1)).await;
    lab.settles(&first, release(), StateKind::Released).await;
    lab.finish(&gated(&lab, "cart", 2), complete("done")).await;
    lab.stale(&gated(&lab, "cart", 1), 2).await;
    lab.stands(&first.operation, StateKind::Released).await;
}

/// A duplicate of an applied version is a duplicate, not stale.
pub async fn a_duplicate_of_an_applied_version_replays(lab: Lab) {
    lab.finish(&gated(&lab, "cart", 1), complete("first")).await;
    lab.finish(&gated(&lab, "cart", 2), complete("second"))
        .await;
    let again = ClaimRequest {
        claim_id: semel_core::ClaimId::from_u128(99),
        ..gated(&lab, "cart", 1)
    };
    lab.replays(&again, &outcome("first")).await;
}

/// The gate has no window: the record is forgotten, the version is not.
pub async fn a_version_outlives_its_record(lab: Lab) {
    let request = gated(&lab, "cart", 5);
    lab.finish(&request, complete_for("done", lab.window()))
        .await;
    lab.outlast_grace().await;
    lab.sweep().await;
    lab.stale(&request, 5).await;
    lab.finish(&gated(&lab, "cart", 6), complete("done")).await;
}

/// A completion that comes after a later version does not lower it.
pub async fn a_late_completion_does_not_lower_the_version(lab: Lab) {
    let late = lab.grant(&gated(&lab, "cart", 1)).await;
    lab.outlast_lease().await;
    lab.finish(&gated(&lab, "cart", 2), complete("done")).await;
    lab.settles(&late, complete("late"), StateKind::Completed)
        .await;
    lab.stale(&gated(&lab, "cart", 2).renamed("other"), 2).await;
}

/// A person who says that it was applied has applied the version as well.
pub async fn a_doubt_resolved_as_applied_raises_the_version(lab: Lab) {
    let request = ClaimRequest {
        gate: Some(gate("cart", 5)),
        ..lab.marked("cart at 5", 1, Recovery::Park)
    };
    let claim = lab.grant(&request).await;
    lab.settles(&claim, crate::steps::release_unsure(), StateKind::InDoubt)
        .await;
    let applied = Verdict::Applied {
        outcome: outcome("seen"),
        window: LONG_WINDOW,
    };
    lab.ordered(
        &claim.operation,
        Order::Resolve(applied),
        Some(StateKind::Completed),
    )
    .await;
    lab.stale(&gated(&lab, "cart", 4), 5).await;
}

/// Versions use all 64 bits.
pub async fn versions_use_all_64_bits(lab: Lab) {
    let high = u64::MAX - 1;
    lab.finish(&gated(&lab, "zero", 0), complete("done")).await;
    lab.stale(&gated(&lab, "zero", 0).renamed("other"), 0).await;
    lab.finish(&gated(&lab, "cart", i64::MAX as u64 + 1), complete("done"))
        .await;
    lab.stale(&gated(&lab, "cart", i64::MAX as u64), i64::MAX as u64 + 1)
        .await;
    lab.finish(&gated(&lab, "cart", high), complete("done"))
        .await;
    lab.stale(&gated(&lab, "cart", 7), high).await;
    lab.finish(&gated(&lab, "cart", u64::MAX), complete("done"))
        .await;
}

/// Entities do not know each other, however alike their names.
pub async fn entities_are_told_apart(lab: Lab) {
    lab.finish(&gated(&lab, "cart", 5), complete("done")).await;
    for other in ["Cart", "cart ", "cart2", "car", "cárt", "json:1"] {
        lab.finish(&gated(&lab, other, 1), complete("done")).await;
    }
}

/// An entity belongs to its scope, and is no key.
pub async fn an_entity_belongs_to_its_scope(lab: Lab) {
    lab.finish(&gated(&lab, "cart", 5), complete("done")).await;
    for (tenant, name) in [("other", "laws"), ("", "other")] {
        let mut elsewhere = gated(&lab, "cart", 1);
        elsewhere.operation.scope = scope_of(tenant, name);
        lab.finish(&elsewhere, complete("done")).await;
    }
    lab.finish(&lab.request("cart", 9), complete("a key of that name"))
        .await;
    lab.stale(&gated(&lab, "cart", 4), 5).await;
}

/// Entities are counted once each, and stay when all that was done to them is forgotten.
pub async fn entities_are_counted_once_each_and_for_good(lab: Lab) {
    assert_eq!(lab.stats().await.entities, 0);
    lab.finish(&lab.request("no entity", 1), complete("done"))
        .await;
    for (entity, version) in [("cart", 1), ("order", 7), ("cart", 2)] {
        let request = gated(&lab, entity, version);
        lab.finish(&request, complete_for("done", lab.window()))
            .await;
    }
    lab.stale(&gated(&lab, "cart", 1).renamed("late"), 2).await;
    assert_eq!(lab.stats().await.entities, 2);
    lab.outlast_grace().await;
    lab.sweep().await;
    assert_eq!(lab.stats().await.entities, 2);
}

/// While one claim works on an entity, others wait, whatever their version.
pub async fn an_entity_is_busy_while_one_claim_works_on_it(lab: Lab) {
    let holder = lab.grant(&gated(&lab, "cart", 5)).await;
    for version in [4, 6] {
        let waiting = gated(&lab, "cart", version);
        assert_eq!(lab.busy(&waiting).await, holder.lease_until);
        assert_eq!(
            lab.get(&waiting.operation).await,
            None,
            "a busy entity leaves no record"
        );
    }
    assert!(
        lab.grant(&gated(&lab, "cart", 5)).await.resumed,
        "its own claim is resumed"
    );
}

/// Completing, releasing and failing free the entity at once.
pub async fn a_settled_claim_frees_its_entity(lab: Lab) {
    let completed = lab.grant(&gated(&lab, "cart", 1)).await;
    lab.settles(&completed, complete("done"), StateKind::Completed)
        .await;
    let released = lab.grant(&gated(&lab, "cart", 2)).await;
    lab.settles(&released, release(), StateKind::Released).await;
    let dead = lab.grant(&gated(&lab, "cart", 3)).await;
    lab.settles(&dead, fail(), StateKind::Dead).await;
    assert_eq!(lab.grant(&gated(&lab, "cart", 4)).await.attempt, 1);
}

/// A doubt does not hold up the entity.
pub async fn a_doubt_frees_its_entity(lab: Lab) {
    let start = lab.marked("cart at 1", 1, Recovery::Park).start;
    let claim = lab
        .grant(&ClaimRequest {
            start,
            ..gated(&lab, "cart", 1)
        })
        .await;
    lab.settles(&claim, crate::steps::release_unsure(), StateKind::InDoubt)
        .await;
    assert_eq!(lab.grant(&gated(&lab, "cart", 2)).await.attempt, 1);
}

/// A lease that ends frees the entity for other keys.
pub async fn an_ended_lease_frees_its_entity(lab: Lab) {
    let _ = lab.grant(&gated(&lab, "cart", 1)).await;
    lab.outlast_lease().await;
    let next = lab.grant(&gated(&lab, "cart", 2)).await;
    assert!(!next.takeover, "another key is no takeover");
}

/// A renewed lease holds the entity as well.
pub async fn a_renewed_lease_holds_its_entity(lab: Lab) {
    let holder = lab.grant(&gated(&lab, "cart", 1)).await;
    let until = lab.extended(&holder, lab.lease() * 20).await;
    lab.outlast_lease().await;
    assert_eq!(lab.busy(&gated(&lab, "cart", 2)).await, until);
}

/// A claim whose entity went to another cannot come back to life beside it.
pub async fn a_claim_that_lost_its_entity_is_not_renewed(lab: Lab) {
    let old = lab.grant(&gated(&lab, "cart", 1)).await;
    lab.outlast_lease().await;
    let long = ClaimRequest {
        lease: LONG_LEASE,
        ..gated(&lab, "cart", 2)
    };
    let new = lab.grant(&long).await;
    lab.lost(&old).await;
    lab.fenced(&old.operation, old.claim_id, start(Recovery::Park))
        .await;
    lab.busy(&gated(&lab, "cart", 1)).await;
    lab.settles(&new, complete("done"), StateKind::Completed)
        .await;
    lab.lost(&old).await;
    lab.stale(&gated(&lab, "cart", 1), 2).await;
}

/// Of an effect that has begun already, and of one that failed, the report counts all the same: it ends its own
/// operation, and the entity stays with the claim that has it.
pub async fn a_claim_that_lost_its_entity_says_how_it_ended(lab: Lab) {
    let doubted = lab.grant(&gated(&lab, "cart", 1)).await;
    lab.outlast_lease().await;
    let failed = lab.grant(&gated(&lab, "cart", 2)).await;
    lab.outlast_lease().await;
    let long = ClaimRequest {
        lease: LONG_LEASE,
        ..gated(&lab, "cart", 3)
    };
    let holder = lab.grant(&long).await;
    lab.settles(&doubted, late_start(Recovery::Park), StateKind::Started)
        .await;
    lab.settles(&doubted, release_unsure(), StateKind::InDoubt)
        .await;
    lab.settles(&failed, fail(), StateKind::Dead).await;
    assert_eq!(lab.busy(&gated(&lab, "cart", 4)).await, holder.lease_until);
    lab.settles(&holder, complete("done"), StateKind::Completed)
        .await;
}

/// A takeover of the holder's own key takes the entity over with it.
pub async fn a_takeover_takes_the_entity_along(lab: Lab) {
    let _ = lab.grant(&gated(&lab, "cart", 1)).await;
    lab.outlast_lease().await;
    let taker = ClaimRequest {
        claim_id: semel_core::ClaimId::from_u128(99),
        ..gated(&lab, "cart", 1)
    };
    let taker = lab.grant(&taker).await;
    assert!(taker.takeover);
    assert_eq!(lab.busy(&gated(&lab, "cart", 2)).await, taker.lease_until);
}

/// Sixteen versions at once: one works, and the last word is the highest that was applied.
pub async fn of_16_versions_at_once_one_is_granted(lab: Lab) {
    let lab = Arc::new(lab);
    let answers = lab
        .race(16, |lab, version| async move {
            let request = gated(&lab, "cart", u64::from(version) + 1);
            lab.claim(&ClaimRequest {
                lease: LONG_LEASE,
                ..request
            })
            .await
        })
        .await;
    let granted = answers
        .iter()
        .filter(|it| matches!(it, Admission::Granted(_)))
        .count();
    let busy = answers
        .iter()
        .filter(|it| matches!(it, Admission::Busy { .. }))
        .count();
    assert_eq!((granted, busy), (1, 15));
}

/// Each version of an entity has a key and a claimant of its own.
fn gated(lab: &Lab, entity: &str, version: u64) -> ClaimRequest {
    let request = lab.request(&format!("{entity} at {version}"), u128::from(version) + 1);
    ClaimRequest {
        gate: Some(gate(entity, version)),
        ..request
    }
}

trait Renamed {
    fn renamed(self, key: &str) -> Self;
}

impl Renamed for ClaimRequest {
    /// The same request under another key, by another claimant.
    fn renamed(self, key: &str) -> Self {
        let scope = self.operation.scope.clone();
        let operation = Operation::new(scope, crate::lab::text_key(key));
        Self {
            operation,
            claim_id: semel_core::ClaimId::from_u128(4_711),
            ..self
        }
    }
}

const LONG_LEASE: Duration = Duration::from_secs(3_600);
