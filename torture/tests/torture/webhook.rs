//! A provider of webhooks that sends again until it is answered with success, to workers that are killed again and again.

use torture::{Class, Postgres, Server, each_event_happens_once};

const EMBEDDED: (&str, &str) = ("embedded", "[store]\nurl = \"embedded:data\"\n");

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn an_event_that_parks_is_carried_out_once_or_listed() {
    each_event_happens_once(EMBEDDED, 1, Class::Park, 81);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn an_event_that_repeats_is_listed() {
    each_event_happens_once(EMBEDDED, 1, Class::Repeat, 82);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn an_event_whose_key_the_target_knows_is_carried_out_once() {
    each_event_happens_once(EMBEDDED, 1, Class::Keyed, 83);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn two_workers_over_postgres_are_one() {
    let server = Postgres::start();
    each_event_happens_once(("PostgreSQL", &server.store()), 2, Class::Park, 84);
}
