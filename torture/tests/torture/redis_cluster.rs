//! A Redis cluster: workers stopped beyond their leases and killed, and a master at a time killed and restarted.

use torture::{RedisCluster, Under, held_once};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn calls_under_a_lease_are_taken_over_and_count_once() {
    held_once(&mut RedisCluster::start(), Under::Keyed, 65);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn calls_without_a_key_are_taken_over_and_left_in_doubt() {
    held_once(&mut RedisCluster::start(), Under::Unkeyed, 66);
}
