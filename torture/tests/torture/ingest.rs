//! Producers that send until they are answered, each open twice at a time, to workers that are killed again and again.

use torture::{Origin, each_message_is_booked_once};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_message_is_booked_once_over_embedded() {
    each_message_is_booked_once(None, 201);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_message_is_booked_once_over_postgres() {
    each_message_is_booked_once(Some(Origin::Postgres), 202);
}
