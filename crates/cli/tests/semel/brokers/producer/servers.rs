//! `semel publish` to NATS with its producer in a store on a server.

use super::{arguments, object, rows, seen_once, show, start};
use crate::brokers::nats::Stream;
use crate::brokers::publish::Target;
use crate::brokers::{Place, Way};
use crate::operator::items;
use crate::site::{Site, wait_for};

/// A store that no other test uses.
trait Shelf {
    fn new() -> Self;
    fn url(&self) -> String;
}

/// The tests of one kind of server.
macro_rules! kept_on {
    ($name:ident, $shelf:ty) => {
        mod $name {
            use super::Shelf;
            use crate::brokers::nats::Stream;

            impl Shelf for $shelf {
                fn new() -> Self {
                    Self::new()
                }

                fn url(&self) -> String {
                    self.url()
                }
            }

            #[test]
            fn killed_and_run_again_it_goes_on() {
                let shelf = <$shelf>::new();
                super::super::killed_and_run_again_it_goes_on::<Stream>(&shelf.url());
            }
            #[test]
            fn a_frozen_producer_keeps_its_messages_until_it_is_thawed() {
                let shelf = <$shelf>::new();
                super::super::a_frozen_producer_keeps_its_messages_until_it_is_thawed::<Stream>(
                    &shelf.url(),
                );
            }
            #[test]
            fn the_earlier_of_two_processes_is_fenced() {
                let shelf = <$shelf>::new();
                super::super::the_earlier_of_two_processes_is_fenced(&shelf.url());
            }
            #[test]
            fn a_worker_tells_what_waits() {
                let (shelf, site) = (<$shelf>::new(), crate::site::Site::new());
                crate::producers::a_worker_tells_what_waits(&site, &shelf.url());
            }
            #[test]
            fn connections_that_are_cut_lose_nothing() {
                super::connections_that_are_cut_lose_nothing::<$shelf>();
            }
            #[test]
            fn a_store_that_is_away_or_has_none_is_told_apart() {
                super::a_store_that_is_away_or_has_none_is_told_apart::<$shelf>();
            }
        }
    };
}

#[cfg(feature = "postgres")]
kept_on!(postgres, crate::postgres::Schema);
#[cfg(feature = "mysql")]
kept_on!(mysql, crate::mysql::Database);
#[cfg(feature = "redis")]
kept_on!(redis, crate::redis::Prefix);

/// Each row is appended once, whatever the server has done when a connection breaks, and what was appended goes out.
fn connections_that_are_cut_lose_nothing<S: Shelf>() {
    let (shelf, target, site) = (S::new(), Stream::new(), Site::new());
    let (proxy, url) = Way::to(&shelf.url());
    let count = 12_000;
    site.write("rows.ndjson", rows(0..count));
    let store = ["--store", &url, "rows.ndjson"];
    let publish = arguments(&target, &Stream::address(), &store);
    let mut running = start(&site, &publish);
    // An opening that breaks ends the run, as a broken connection under any other verb does.
    wait_for("its first messages", || {
        let shown = show(&site, &shelf.url());
        let confirmed = shown["streams"][0]["confirmed"].as_u64();
        confirmed.is_some_and(|it| it > 0)
    });
    for cut in 0..9 {
        let before = proxy.seen().cuts;
        // Now before the answer, now before the statement is whole.
        match cut % 3 {
            0 => proxy.cut_now(),
            1 => proxy.cut_before_answer(1),
            _ => proxy.cut_after_client_bytes(30_000),
        }
        wait_for("a cut, or the end", || {
            proxy.seen().cuts > before || !running.is_running()
        });
    }
    let cuts = proxy.seen().cuts;
    proxy.heal();
    let done = object(&running.wait().done());
    assert!(cuts >= 3, "{cuts}");
    assert_eq!(done["published"], count, "{done}");
    assert_eq!(seen_once(&target.read(), count), 0);
    assert_eq!(show(&site, &shelf.url())["streams"][0]["confirmed"], count);
}

fn a_store_that_is_away_or_has_none_is_told_apart<S: Shelf>() {
    let (shelf, site) = (S::new(), Site::new());
    let list = |url: &str| site.semel(&["producers", "list", "--output", "json", "--store", url]);
    let show = |url: &str| site.semel(&["producers", "show", "billing", "--store", url]);
    let none = items(&list(&shelf.url()).done());
    assert!(none.is_empty(), "{none:?}");
    show(&shelf.url())
        .code(1)
        .says("there is no producer `billing`");
    let (proxy, url) = Way::to(&shelf.url());
    proxy.refuse(true);
    let away = list(&url).code(3).says("[store-unavailable]");
    assert_eq!(away.stdout, "");
    proxy.refuse(false);
    list(&url).done();
}
