//! Counts the entities of a log that names each of them many times, without keeping their names.

use std::collections::BTreeSet;

use crate::digest::{Digest, KeyedHash};
use crate::entry::{EntityBody, Identity, put_identity};

/// The entities seen so far, each by its digest.
///
/// Two entities of one digest count as one: of n entities some two meet with a chance of n² / 2^129, of a billion with
/// one in 10^20. A client that chooses entity names cannot make them meet, since the hash has a random key per store.
///
/// # Cost   16 bytes an entity, about 25 with the nodes of the tree, however long its name is
#[derive(Default)]
pub(super) struct Entities {
    digests: BTreeSet<Digest>,
    /// Reused memory for an identity.
    identity: Vec<u8>,
}

impl Entities {
    /// Adds the entity of `body`, unless it was seen before.
    pub(super) fn add(&mut self, body: &EntityBody, keyed_hash: &KeyedHash) {
        self.identity.clear();
        put_identity(&mut self.identity, &body.scope, &body.entity);
        self.digests
            .insert(keyed_hash.digest(Identity(&self.identity)));
    }

    /// Returns the number of entities seen.
    pub(super) fn count(&self) -> u64 {
        self.digests.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use semel_core::{EntityRecord, Key, Scope};

    use super::*;

    fn entity(tenant: &str, operation: &str, entity: &str) -> EntityBody {
        EntityBody {
            scope: Scope::new(tenant, operation).expect("a scope"),
            entity: Key::parse(entity).expect("a key"),
            record: EntityRecord::default(),
            has_foreign_lease: false,
        }
    }

    #[test]
    fn entities_that_differ_in_any_part_are_counted_once_each() {
        let keyed_hash = KeyedHash::new(&[7; 16]);
        let mut entities = Entities::default();
        for _ in 0..3 {
            for (tenant, operation, name) in [
                ("a", "pay", "cart"),
                ("b", "pay", "cart"),
                ("a", "pays", "cart"),
                ("a", "pay", "scart"),
                ("a", "pay", "json:7"),
                ("a", "pay", "7"),
            ] {
                entities.add(&entity(tenant, operation, name), &keyed_hash);
            }
        }
        assert_eq!(entities.count(), 6);
    }

    #[test]
    fn a_long_name_takes_no_more_memory_than_a_short_one() {
        let keyed_hash = KeyedHash::new(&[7; 16]);
        let mut entities = Entities::default();
        for number in 0..100 {
            let name = format!("{number}{}", "x".repeat(900));
            entities.add(&entity("", "pay", &name), &keyed_hash);
        }
        assert_eq!(entities.count(), 100);
        let kept_bytes = entities.digests.iter().map(size_of_val).sum::<usize>();
        assert_eq!(kept_bytes, 1_600, "16 bytes each");
        assert!(entities.identity.capacity() < 4_096, "one name at a time");
    }
}
