//! The version gate: an older or equal version of an entity is stale, whatever its key.

use crate::ids::ClaimId;
use crate::key::Key;
use crate::time::Timestamp;

/// The identity of the entity that a message describes, within the scope of its operation.
pub type Entity = Key;

/// The entity that a message describes and the version that it carries. Law VER-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionGate {
    /// The entity that the message describes.
    pub entity: Entity,
    /// Its version, strictly growing at the producer.
    pub version: u64,
}

/// The record that a store keeps of one entity. It has no window: a version gate holds for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityRecord {
    /// The highest version whose effect was completed.
    pub applied: Option<u64>,
    /// The claim that works on this entity now, and the end of its lease.
    pub holder: Option<(ClaimId, Timestamp)>,
}

impl EntityRecord {
    /// The end of the lease of a claim other than `claim_id` that works on this entity at `now`, if
    /// there is one.
    pub fn busy_for(&self, claim_id: ClaimId, now: Timestamp) -> Option<Timestamp> {
        self.holder
            .filter(|&(holder, until)| holder != claim_id && until > now)
            .map(|(_, until)| until)
    }

    /// The same record without `claim_id` as its holder.
    #[must_use]
    pub fn without_holder(&self, claim_id: ClaimId) -> Self {
        let holder = self.holder.filter(|&(holder, _)| holder != claim_id);
        Self {
            applied: self.applied,
            holder,
        }
    }
}
