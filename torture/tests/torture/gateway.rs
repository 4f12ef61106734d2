//! Gateways before an API that is a bad upstream, killed again and again, with clients that race and try again.

use torture::{
    Class, Handover, Log, Postgres, Redis, Server, Speech, each_key_has_one_end,
    replaced_under_load,
};

const EMBEDDED: (&str, &str) = ("embedded", "[store]\nurl = \"embedded:data\"\n");

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_key_that_parks_has_no_second_arrival() {
    each_key_has_one_end(EMBEDDED, 1, Class::Park, 71);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_key_that_repeats_is_listed() {
    each_key_has_one_end(EMBEDDED, 1, Class::Repeat, 72);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_key_that_goes_upstream_is_always_the_same() {
    each_key_has_one_end(EMBEDDED, 1, Class::Keyed, 73);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn two_gateways_over_postgres_are_one() {
    let server = Postgres::start();
    each_key_has_one_end(("PostgreSQL", &server.store()), 2, Class::Park, 74);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn two_gateways_over_redis_are_one() {
    let server = Redis::start(Log::Synced);
    each_key_has_one_end(("Redis", &server.store()), 2, Class::Park, 75);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn two_gateways_over_postgres_list_what_they_repeat() {
    let server = Postgres::start();
    each_key_has_one_end(("PostgreSQL", &server.store()), 2, Class::Repeat, 78);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn two_gateways_over_redis_list_what_they_repeat() {
    let server = Redis::start(Log::Synced);
    each_key_has_one_end(("Redis", &server.store()), 2, Class::Repeat, 79);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn two_gateways_over_postgres_send_one_key() {
    let server = Postgres::start();
    each_key_has_one_end(("PostgreSQL", &server.store()), 2, Class::Keyed, 80);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn two_gateways_over_redis_send_one_key() {
    let server = Redis::start(Log::Synced);
    each_key_has_one_end(("Redis", &server.store()), 2, Class::Keyed, 81);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_restart_at_a_socket_that_stays_open_refuses_nobody() {
    replaced_under_load(EMBEDDED, Handover::Socket, Speech::Plain, 76);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_restart_at_a_shared_port_refuses_nobody() {
    let sqlite = ("SQLite", "[store]\nurl = \"sqlite:semel.db\"\n");
    replaced_under_load(sqlite, Handover::Port, Speech::Plain, 77);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_restart_refuses_nobody_who_speaks_http2_at_a_socket_that_stays_open() {
    replaced_under_load(EMBEDDED, Handover::Socket, Speech::Http2, 82);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_restart_over_postgres_refuses_nobody_who_speaks_http2() {
    let server = Postgres::start();
    let store = ("PostgreSQL", &*server.store());
    replaced_under_load(store, Handover::Port, Speech::Http2, 83);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_restart_over_redis_refuses_nobody_who_encrypts() {
    let server = Redis::start(Log::Synced);
    let store = ("Redis", &*server.store());
    replaced_under_load(store, Handover::Port, Speech::Encrypted, 84);
}
