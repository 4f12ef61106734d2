//! Relays: what transactions wrote into an outbox leaves if they commit, and in order, whatever is killed meanwhile.

use rustix::process::Signal;

use super::{Schema, server};
use crate::outbox_shop::{
    Shop, a_relay_is_killed_often, dead_letters_are_operated_while_the_relay_runs,
    one_of_two_relays_is_killed,
};
use crate::relay_pauses::a_relay_is_paused_wherever_it_runs;
use crate::site::{Site, wait_for};

/// A database with an outbox, and a relay that appends to a file.
struct InPostgres {
    schema: Schema,
    site: Site,
}

impl InPostgres {
    fn new(sink: &str) -> Self {
        let shop = Self::without_outbox(sink);
        let url = shop.schema.bare_url();
        let migrate = ["store", "migrate", "--yes", "--store", &url];
        shop.site.semel(&migrate).done();
        shop
    }

    fn without_outbox(sink: &str) -> Self {
        let schema = Schema::new();
        let config = format!(
            "[relays.out]\nstore = \"{}\"\nstream = \"orders\"\nlease = \"3s\"\n[relays.out.sink]\n{sink}\n",
            schema.bare_url()
        );
        let site = Site::with(&[("semel.toml", &config)]);
        Self { schema, site }
    }

    fn to_file() -> Self {
        Self::new("kind = \"file\"\npath = \"out\"")
    }
}

impl Shop for InPostgres {
    fn site(&self) -> &Site {
        &self.site
    }

    fn transaction(&self, from: u64, count: u64, end: &str) {
        self.execute(&format!(
            "begin; insert into semel_outbox (stream, order_key, payload) select 'orders', 'k' || (i % 7), \
             convert_to('k' || (i % 7) || ' ' || i, 'UTF8') from generate_series({from}, {}) as i; {end}",
            from + count - 1
        ));
    }

    fn execute(&self, sql: &str) {
        let name = &self.schema.name;
        self.schema
            .execute(&format!("set search_path = {name}; {sql}"));
    }

    fn store(&self) -> String {
        self.schema.bare_url()
    }

    fn waiting(&self) -> u64 {
        self.schema.count("semel_outbox")
    }
}

impl Schema {
    /// The url of a store whose user finds bare names in this schema.
    fn bare_url(&self) -> String {
        let name = &self.name;
        format!(
            "{}?schema={name}&sslmode=disable&options=-csearch_path%3D{name}",
            server()
        )
    }
}

#[test]
fn what_is_committed_arrives_in_order_however_often_the_relay_is_killed() {
    a_relay_is_killed_often(&InPostgres::to_file());
}

#[test]
fn two_processes_share_a_stream_and_one_goes_on_where_the_other_was_killed() {
    one_of_two_relays_is_killed(&InPostgres::to_file());
}

#[test]
fn a_relay_of_postgres_is_paused_wherever_it_runs() {
    a_relay_is_paused_wherever_it_runs(&InPostgres::to_file());
}

#[test]
fn dead_letters_are_operated_on_a_server_while_the_relay_runs() {
    dead_letters_are_operated_while_the_relay_runs(&InPostgres::to_file());
}

#[test]
fn a_transaction_that_commits_late_is_published_after_those_before_it() {
    let shop = InPostgres::to_file();
    let late = Schema::new();
    let begun = format!(
        "set search_path = {}; begin; insert into semel_outbox (stream, order_key, payload) \
         values ('orders', 'k0', 'k0 9'), ('orders', 'late', 'late 10')",
        shop.schema.name
    );
    late.execute(&begun);
    let relay = shop.site.start(&["run"]);
    for number in 1..=8 {
        shop.transaction(number, 1, "commit");
        wait_for("it", || shop.waiting() == 0);
    }
    late.execute("commit");
    wait_for("ten lines", || shop.lines() == 10);
    relay.signal(Signal::TERM);
    relay.wait().done();
    shop.arrived(1..=10, 0);
}

#[test]
fn a_message_that_cannot_be_published_is_dead_and_holds_up_its_order_key_alone() {
    let shop = InPostgres::to_file();
    shop.execute(
        "insert into semel_outbox (stream, order_key, headers, payload) values \
         ('orders', 'a', null, 'a 1'), ('orders', 'a', null, E'a\\n2'), ('orders', 'a', null, 'a 3'), \
         ('orders', 'b', '{\"n\": [1]}', 'b 4'), ('orders', 'b', null, 'b 5'), ('orders', null, null, 'c 6')",
    );
    let mut relay = shop.site.start(&["run"]);
    wait_for("what is not held up", || shop.lines() == 2);
    wait_for("both to be told", || {
        relay.stderr().matches(" is dead: ").count() == 2
    });
    relay.signal(Signal::TERM);
    let ended = relay.wait().done();
    assert!(ended.stdout.contains("2 published"), "{ended:?}");
    assert!(
        ended.stderr.contains("the header `n` is no name"),
        "{ended:?}"
    );
    let name = &shop.schema.name;
    let dead =
        format!("select payload from {name}.semel_outbox where dead_at is not null order by place");
    assert_eq!(shop.schema.rows(&dead).len(), 2);
    let checked = shop.site.semel(&["check"]).done();
    assert!(checked.stdout.contains("relay-dead"), "{checked:?}");
    shop.execute(
        "update semel_outbox set payload = 'a 2', headers = null, due_at = null, dead_at = null where dead_at is not null",
    );
    shop.execute("update semel_outbox set payload = 'b 4' where order_key = 'b' and place = (select min(place) from semel_outbox where order_key = 'b')");
    let relay = shop.site.start(&["run"]);
    wait_for("the rest", || shop.waiting() == 0);
    relay.signal(Signal::TERM);
    relay.wait().done();
    shop.arrived(1..=6, 0);
}

#[test]
fn an_outbox_that_is_missing_ends_the_run_and_check_says_what_makes_it() {
    let shop = InPostgres::without_outbox("kind = \"file\"\npath = \"out\"");
    let ended = shop.site.semel(&["run"]).code(2);
    assert!(ended.stderr.contains("semel store migrate"), "{ended:?}");
    let checked = shop.site.semel(&["check"]).code(1);
    assert!(
        checked.stdout.contains("semel store migrate"),
        "{checked:?}"
    );
    let url = shop.schema.bare_url();
    shop.site
        .semel(&["store", "migrate", "--yes", "--store", &url])
        .done();
    shop.site.semel(&["check"]).done();
    shop.execute("insert into semel_outbox (stream, payload) values ('bills', 'x')");
    let checked = shop.site.semel(&["check"]).done();
    assert!(checked.stdout.contains("stream-unrelayed"), "{checked:?}");
}

#[test]
fn two_relays_of_one_name_have_one_sink() {
    let shop = InPostgres::to_file();
    let mut one = shop.site.start(&["run"]);
    wait_for("the first to begin", || {
        one.stderr().contains("publishes 32 of 32")
    });
    let elsewhere = shop
        .site
        .text("semel.toml")
        .replace("\"out\"", "\"elsewhere\"");
    shop.site.write("other.toml", elsewhere);
    let refused = shop.site.semel(&["run", "--config", "other.toml"]).code(2);
    assert!(
        refused.stderr.contains("give both the same sink"),
        "{refused:?}"
    );
    one.signal(Signal::TERM);
    one.wait().done();
    assert!(!shop.site.path("elsewhere").exists());
}

#[test]
fn two_relays_of_one_process_do_not_share_a_stream() {
    let shop = InPostgres::to_file();
    let config = shop.site.text("semel.toml");
    // Another text for the same database, so that the configuration alone does not show it.
    let second = config
        .replace("[relays.out", "[relays.second")
        .replace("?schema=", "?application_name=second&schema=");
    shop.site.write("semel.toml", format!("{config}\n{second}"));
    let refused = shop.site.semel(&["run"]).code(2);
    assert!(
        refused.stderr.contains("is published by relay"),
        "{refused:?}"
    );
}

#[cfg(feature = "nats")]
#[test]
fn messages_reach_nats_under_their_ids_and_a_repeat_is_dropped_there() {
    let url = std::env::var("SEMEL_TEST_NATS_URL").expect(
        "SEMEL_TEST_NATS_URL names no server: run `cargo xtask services up nats` and `source target/services/env`",
    );
    let schema = Schema::new();
    let stream = schema.name.clone();
    let stored = |expected: u64| {
        schema.runtime.block_on(async {
            let client = async_nats::connect(&url).await.expect("a server");
            let jetstream = async_nats::jetstream::new(client);
            let config = async_nats::jetstream::stream::Config {
                name: stream.clone(),
                subjects: vec![stream.clone()],
                duplicate_window: std::time::Duration::from_secs(120),
                ..Default::default()
            };
            let found = jetstream.get_or_create_stream(config).await;
            let mut found = found.expect("a stream");
            found.info().await.expect("facts").state.messages == expected
        })
    };
    assert!(stored(0));
    let sink = format!("kind = \"nats\"\nurl = \"{url}\"\nsubject = \"{stream}\"");
    let shop = InPostgres::new(&sink);
    for kill in 0..3 {
        let relay = shop.site.start(&["run"]);
        for part in 0..10 {
            shop.transaction(1 + kill * 1_000 + part * 100, 100, "commit");
        }
        wait_for("some to go", || shop.waiting() < 1_000);
        relay.signal(Signal::KILL);
        relay.wait();
    }
    let relay = shop.site.start(&["run"]);
    wait_for("an empty outbox", || shop.waiting() == 0);
    relay.signal(Signal::TERM);
    relay.wait().done();
    assert!(
        stored(3_000),
        "each message once, by the window of the broker"
    );
}
