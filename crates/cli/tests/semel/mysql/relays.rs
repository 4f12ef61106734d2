//! Relays of an outbox in MySQL or MariaDB: what transactions wrote into it leaves if they commit, and in order, whatever
//! is killed meanwhile.

use super::Database;
use crate::outbox_shop::{
    Shop, a_dead_message_holds_up_its_order_key_alone, a_relay_is_killed_often,
    dead_letters_are_operated_while_the_relay_runs, one_of_two_relays_is_killed,
};
use crate::relay_pauses::a_relay_is_paused_wherever_it_runs;
use crate::site::Site;

/// A database with an outbox, and a relay that appends to a file.
struct InMysql {
    database: Database,
    site: Site,
}

impl InMysql {
    fn new() -> Self {
        let shop = Self::without_outbox();
        shop.migrate();
        shop
    }

    fn without_outbox() -> Self {
        let database = Database::new();
        let config = format!(
            "[relays.out]\nstore = \"{}\"\nstream = \"orders\"\nlease = \"3s\"\n\
             [relays.out.sink]\nkind = \"file\"\npath = \"out\"\n",
            database.url()
        );
        let site = Site::with(&[("semel.toml", &config)]);
        Self { database, site }
    }

    fn migrate(&self) {
        let url = self.database.url();
        let migrate = ["store", "migrate", "--yes", "--store", &url];
        self.site.semel(&migrate).done();
    }
}

impl Shop for InMysql {
    fn site(&self) -> &Site {
        &self.site
    }

    fn transaction(&self, from: u64, count: u64, end: &str) {
        let row = |i| format!("('orders', 'k{key}', 'k{key} {i}')", key = i % 7);
        let rows: Vec<String> = (from..from + count).map(row).collect();
        self.execute(&format!(
            "start transaction; insert into semel_outbox (stream, order_key, payload) values {}; {end}",
            rows.join(", ")
        ));
    }

    fn execute(&self, sql: &str) {
        let name = &self.database.name;
        self.database.execute(&format!("use {name}; {sql}"));
    }

    fn store(&self) -> String {
        self.database.url()
    }

    fn waiting(&self) -> u64 {
        self.database.count("count(*) from semel_outbox")
    }
}

#[test]
fn what_is_committed_to_mysql_arrives_in_order_however_often_the_relay_is_killed() {
    a_relay_is_killed_often(&InMysql::new());
}

#[test]
fn a_relay_of_mysql_is_paused_wherever_it_runs() {
    a_relay_is_paused_wherever_it_runs(&InMysql::new());
}

#[test]
fn two_processes_share_a_stream_in_mysql_and_one_goes_on_where_the_other_was_killed() {
    one_of_two_relays_is_killed(&InMysql::new());
}

#[test]
fn dead_letters_of_a_relay_of_mysql_are_operated_while_it_runs() {
    dead_letters_are_operated_while_the_relay_runs(&InMysql::new());
}

#[test]
fn a_dead_message_in_mysql_is_told_and_holds_up_its_order_key_alone() {
    let shop = InMysql::without_outbox();
    let ended = shop.site.semel(&["run"]).code(2);
    assert!(ended.stderr.contains("semel store migrate"), "{ended:?}");
    let checked = shop.site.semel(&["check"]).code(1);
    assert!(
        checked.stdout.contains("semel store migrate"),
        "{checked:?}"
    );
    shop.migrate();
    a_dead_message_holds_up_its_order_key_alone(&shop);
}
