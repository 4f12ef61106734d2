//! The answers that cases expect, and the panics when another one comes.

use semel_core::{
    Admission, Claim, ClaimId, ClaimRequest, Duplicate, Operation, Outcome, Record, Recovery,
    Renewed, Settled, Start, StateKind, Step, Timestamp,
};

use super::Lab;

impl Lab {
    /// Claims, and expects another claim to hold the key. Returns until when.
    pub async fn busy(&self, request: &ClaimRequest) -> Timestamp {
        match self.claim(request).await {
            Admission::Busy { until, now } => {
                assert!(until > now, "a busy key names a time that lies ahead");
                until
            }
            other => panic!("{} should be busy, got {other:?}", request.operation.key),
        }
    }

    /// Claims, and expects the outcome to be replayed.
    pub async fn replays(&self, request: &ClaimRequest, expected: &Outcome) {
        match self.claim(request).await {
            Admission::Replay {
                outcome: Some(outcome),
                ..
            } => {
                assert!(
                    outcome == *expected,
                    "{} replays another outcome",
                    request.operation.key
                );
            }
            other => panic!(
                "{} should be replayed, got {other:?}",
                request.operation.key
            ),
        }
    }

    /// Claims, and expects the operation to be dead or in doubt.
    pub async fn parked(&self, request: &ClaimRequest, expected: StateKind) {
        match self.claim(request).await {
            Admission::Parked { state, .. } if state == expected => {}
            other => panic!(
                "{} should be {expected}, got {other:?}",
                request.operation.key
            ),
        }
    }

    /// Claims, and expects the key to belong to another request.
    pub async fn conflicts(&self, request: &ClaimRequest) -> Duplicate {
        match self.claim(request).await {
            Admission::Conflict { duplicate, .. } => duplicate,
            other => panic!(
                "{} should be a conflict, got {other:?}",
                request.operation.key
            ),
        }
    }

    /// Claims, and expects a version of the entity to be applied already.
    pub async fn stale(&self, request: &ClaimRequest, expected: u64) {
        match self.claim(request).await {
            Admission::Stale { applied } => assert_eq!(applied, expected),
            other => panic!("{} should be stale, got {other:?}", request.operation.key),
        }
    }

    /// Claims, and expects the message to be older than the window.
    pub async fn too_old(&self, request: &ClaimRequest) {
        match self.claim(request).await {
            Admission::TooOld => {}
            other => panic!("{} should be too old, got {other:?}", request.operation.key),
        }
    }

    /// Settles, and expects to be fenced without a trace on the record.
    pub async fn fenced(&self, of: &Operation, claim_id: ClaimId, step: Step) {
        let before = self.get(of).await;
        let shown = format!("{step:?}");
        match self.settle_as(of, claim_id, step).await {
            Settled::Fenced { found } => {
                let state = before.as_ref().map(|record| record.state.kind());
                assert_eq!(found, state, "a fenced settlement names what it found");
            }
            other => panic!("{shown} should be fenced, got {other:?}"),
        }
        assert_eq!(
            self.get(of).await,
            before,
            "a fenced settlement changes nothing"
        );
    }

    /// Renews, and expects the claim to be lost without a trace on the record.
    pub async fn lost(&self, claim: &Claim) {
        let before = self.get(&claim.operation).await;
        match self.renew(claim, self.lease()).await {
            Renewed::Lost { found } => {
                let state = before.as_ref().map(|record| record.state.kind());
                assert_eq!(found, state, "a lost renewal names what it found");
            }
            other => panic!("the claim should be lost, got {other:?}"),
        }
        assert_eq!(
            self.get(&claim.operation).await,
            before,
            "a lost renewal changes nothing"
        );
    }

    /// Renews, and expects the lease to be extended. Returns until when.
    pub async fn extended(&self, claim: &Claim, lease: std::time::Duration) -> Timestamp {
        match self.renew(claim, lease).await {
            Renewed::Until(until) => until,
            other => panic!("the claim should be renewed, got {other:?}"),
        }
    }

    /// Expects the record to be in a state.
    pub async fn stands(&self, operation: &Operation, state: StateKind) -> Record {
        let record = self.record(operation).await;
        assert_eq!(record.state.kind(), state, "the state of {}", operation.key);
        record
    }

    /// A request whose effect may be sent as soon as it is granted.
    pub fn marked(&self, key: &str, claimant: u128, recovery: Recovery) -> ClaimRequest {
        ClaimRequest {
            start: Start::Marked(recovery),
            ..self.request(key, claimant)
        }
    }

    /// An operation that is in doubt, and the claim that left it so.
    pub async fn doubt(&self, key: &str) -> Claim {
        let claim = self.grant(&self.marked(key, 1, Recovery::Park)).await;
        self.settles(&claim, crate::steps::release_unsure(), StateKind::InDoubt)
            .await;
        claim
    }

    /// An operation that is dead, and the claim that left it so.
    pub async fn death(&self, key: &str) -> Claim {
        let claim = self.grant(&self.request(key, 1)).await;
        self.settles(&claim, crate::steps::fail(), StateKind::Dead)
            .await;
        claim
    }
}
