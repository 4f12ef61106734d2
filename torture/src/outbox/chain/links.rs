//! The links between an order and its booking but for the broker: order services, their database, relays, consumers and
//! the consumers' database. Each is killed and started again.

use std::path::Path;
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::process::Signal;

use super::super::booking::{booking, in_order, rows};
use super::super::destination::Destination;
use super::super::orders::ACCOUNTS;
use super::super::relay::{PATIENCE, Relay};
use super::service::Service;
use crate::moments::now;
use crate::storm::Told;
use crate::worker::{RUN_WITH_DECISIONS, Run, Site};
use crate::{Moments, Postgres};

/// The links.
pub(super) struct Links {
    services: [Service; 2],
    relays: [Relay; 2],
    consumers: [Consumer; 2],
    /// The database of the orders.
    pub(super) shop: Postgres,
    /// The database of the bookings.
    pub(super) books: Postgres,
    pub(super) kills: Kills,
}

/// The kinds of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Service,
    Shop,
    Relay,
    Consumer,
    Books,
}

/// Every kind of link.
pub(super) const LINKS: [Link; 5] = [
    Link::Service,
    Link::Shop,
    Link::Relay,
    Link::Consumer,
    Link::Books,
];

/// The numbers of links that were killed at work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kills {
    pub(super) services: u64,
    pub(super) shops: u64,
    pub(super) relays: u64,
    pub(super) consumers: u64,
    pub(super) books: u64,
}

impl Kills {
    fn of(&mut self, link: Link) -> &mut u64 {
        match link {
            Link::Service => &mut self.services,
            Link::Shop => &mut self.shops,
            Link::Relay => &mut self.relays,
            Link::Consumer => &mut self.consumers,
            Link::Books => &mut self.books,
        }
    }

    /// The number of the kind that was killed least.
    pub(super) fn least(mut self) -> u64 {
        let of_each = LINKS.map(|link| *self.of(link));
        of_each.into_iter().min().unwrap_or(0)
    }
}

/// A consumer in a folder of its own.
struct Consumer {
    site: Site,
    running: Option<Run>,
    /// The number of bytes that it had printed when it was started.
    before: u64,
}

impl Links {
    /// Starts the databases with their tables.
    ///
    /// # Panics
    ///
    /// If they do not come up.
    pub(super) fn databases() -> [Postgres; 2] {
        let tables = [SHOP, BOOKS];
        thread::scope(|scope| {
            let started = tables.map(|tables| scope.spawn(|| Self::database(tables)));
            started.map(|it| it.join().expect("a database"))
        })
    }

    fn database(tables: &str) -> Postgres {
        let server = Postgres::start();
        let site = Site::with(&[]);
        let migrate = ["store", "migrate", "--yes", "--store", &url(&server)];
        let (status, _) = site.start(&migrate).wait();
        assert!(status.success(), "{status}: {}", site.last_words());
        server.query(&tables.replace("ACCOUNTS", &ACCOUNTS.to_string()));
        server
    }

    /// Starts everything else before and behind a broker.
    pub(super) fn start(
        [shop, books]: [Postgres; 2],
        destination: &Destination,
        program: &Path,
        seed: u64,
    ) -> Self {
        let source = &destination.source;
        let book = booking("book", destination.key(), &rows("booked"), source);
        // This one has a fault: it goes by the place of a message in its topic, and not by its id.
        let other = source.replace("\"book\"", "\"control\"");
        let control = booking("control", "coordinates", &rows("control"), &other);
        let store = format!("[store]\nurl = \"{}\"\n", url(&books));
        let config = [store, in_order(&book), in_order(&control)].concat();
        let consumer = |_| Consumer {
            site: Site::with(&[("semel.toml", &config)]),
            running: None,
            before: 0,
        };
        let mut links = Self {
            services: [0, 1].map(|number| Service::of(program, number, seed)),
            relays: [0, 1].map(|_| Relay::of(&url(&shop), &destination.sink())),
            consumers: [0, 1].map(consumer),
            shop,
            books,
            kills: Kills::default(),
        };
        links
            .services
            .iter_mut()
            .for_each(|it| it.start(&links.shop));
        links.consumers.iter_mut().for_each(Consumer::start);
        links
    }

    /// Waits until each of the consumers has booked something.
    pub(super) fn wait_until_at_work(&self) {
        self.consumers.iter().for_each(Consumer::wait_until_at_work);
    }

    /// Kills a link while it works, and starts it again.
    pub(super) fn kill(&mut self, link: Link, moments: &mut Moments) {
        let victim = usize::from(moments.below(2) == 0);
        let moment = moments.between(MS(0), MS(100));
        match link {
            Link::Service => {
                let service = &mut self.services[victim];
                service.wait_until_at_work(&self.shop);
                service.kill(moment);
                service.start(&self.shop);
            }
            Link::Shop => {
                self.services[victim].wait_until_at_work(&self.shop);
                sleep(moment);
                self.shop.kill_and_restart();
            }
            Link::Relay => {
                let relay = &mut self.relays[victim];
                relay.wait_until_at_work();
                let words = |relay: &Relay| relay.site.last_words();
                let still_ran = relay.run().kill_after(moment);
                assert!(still_ran, "it ended by itself:\n{}", words(relay));
                relay.start();
            }
            Link::Consumer => {
                let consumer = &mut self.consumers[victim];
                consumer.wait_until_at_work();
                let still_ran = consumer.run().kill_after(moment);
                let words = || consumer.site.last_words();
                assert!(still_ran, "it ended by itself:\n{}", words());
                consumer.start();
            }
            Link::Books => {
                // One that does not find its store at the start ends, and is for a supervisor to start again.
                self.wait_until_at_work();
                sleep(moment);
                self.books.kill_and_restart();
            }
        }
        *self.kills.of(link) += 1;
    }

    /// Ends the services, by a last kill, and waits until the database knows what became of their transactions.
    pub(super) fn services_end(&mut self) {
        for service in &mut self.services {
            service.kill(MS(0));
        }
        let open = "select count(*) from pg_stat_activity where application_name = 'order-service'";
        self.falls_to_none(&|links| count(&links.shop, open));
    }

    /// Asks the relays to end once they have published everything.
    pub(super) fn relays_end(&mut self) {
        let waiting = "select count(*) from semel_outbox where dead_at is null";
        self.falls_to_none(&|links| count(&links.shop, waiting));
        let dead = count(&self.shop, "select count(*) from semel_outbox");
        assert_eq!(dead, 0, "dead: {}", self.last_words());
        for relay in &mut self.relays {
            let run = relay.run();
            run.signal(Signal::TERM);
            let (status, _) = run.wait_at_most(PATIENCE);
            assert!(status.success(), "{status}:\n{}", relay.site.last_words());
        }
    }

    /// Asks the consumers to end once the pipeline that goes by coordinates has booked this many messages.
    pub(super) fn consumers_end(&mut self, messages: u64) {
        let left = |links: &Self| {
            let booked = count(&links.books, "select count(*) from public.control");
            messages.saturating_sub(booked)
        };
        self.falls_to_none(&left);
        for consumer in &mut self.consumers {
            let run = consumer.run();
            run.signal(Signal::TERM);
            let (status, _) = run.wait_at_most(PATIENCE);
            assert!(
                status.success(),
                "{status}:\n{}",
                consumer.site.last_words()
            );
        }
    }

    /// The folder of a consumer.
    pub(super) fn consumer_site(&self) -> &Site {
        &self.consumers[0].site
    }

    /// The number of orders that were committed until now.
    pub(super) fn committed(&self) -> u64 {
        count(&self.shop, "select count(*) from public.sales")
    }

    /// The number of messages that came again under other coordinates until now.
    pub(super) fn repeats(&self) -> u64 {
        let repeats = "select count(*) - count(distinct label) from public.control";
        count(&self.books, repeats)
    }

    /// The number of redeliveries that the consumers answered from a record until now.
    pub(super) fn replays(&self) -> u64 {
        let replays = self.consumers.iter().map(|it| {
            let mut told = Told::default();
            told.listen(&it.site);
            told.replays as u64
        });
        replays.sum()
    }

    /// Waits until a number has fallen to none, as long as it falls.
    fn falls_to_none(&self, number: &dyn Fn(&Self) -> u64) {
        let (mut least, mut began) = (u64::MAX, now());
        loop {
            let left = number(self);
            if left == 0 {
                return;
            }
            if left < least {
                (least, began) = (left, now());
            }
            let is_stuck = began.elapsed() > PATIENCE;
            assert!(!is_stuck, "{left} are left:\n{}", self.last_words());
            sleep(MS(50));
        }
    }

    pub(super) fn last_words(&self) -> String {
        let services = self.services.iter().map(|it| it.site.last_words());
        let relays = self.relays.iter().map(|it| it.site.last_words());
        let consumers = self.consumers.iter().map(|it| it.site.last_words());
        let all: Vec<String> = services.chain(relays).chain(consumers).collect();
        all.join("\n--\n")
    }
}

impl Consumer {
    fn start(&mut self) {
        self.before = self.site.said();
        self.running = Some(self.site.start(RUN_WITH_DECISIONS));
    }

    fn run(&mut self) -> Run {
        self.running.take().expect("it runs")
    }

    /// Waits until it has booked something since its start.
    fn wait_until_at_work(&self) {
        let began = now();
        let has_booked = || {
            let said = self.site.said_behind(self.before);
            said.lines().any(is_booking)
        };
        while !has_booked() {
            let words = || self.site.last_words();
            assert!(began.elapsed() < PATIENCE, "no booking:\n{}", words());
            sleep(MS(20));
        }
    }
}

/// Reports whether a line is the word of the pipeline that books each order once.
fn is_booking(line: &str) -> bool {
    let told = ["\"pipeline\":\"book\"", "\"decision\":\"completed\""];
    told.iter().all(|it| line.contains(it))
}

fn url(server: &Postgres) -> String {
    format!("{}?sslmode=disable", server.url())
}

fn count(server: &Postgres, select: &str) -> u64 {
    let rows = server.query(select);
    rows[0].parse().expect("a count")
}

const MS: fn(u64) -> Duration = Duration::from_millis;

const SHOP: &str = "
create table public.accounts (account text primary key, number bigint not null);
create table public.sales (label text, account text, amount bigint, number bigint, place bigint);
insert into public.accounts select 'k' || number, 0 from generate_series(0, ACCOUNTS - 1) number;
";

/// The books have no key of their own: they must not hide what came twice.
const BOOKS: &str = "
create table public.booked (came bigserial primary key, label text, account text, amount bigint);
create table public.control (came bigserial primary key, label text, account text, amount bigint);
";
