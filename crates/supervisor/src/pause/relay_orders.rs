//! Orders about relays. They stand in the database of the outbox, so that every worker that runs the relay finds them: in
//! the worker's own store if that is there, and in the store beside the outbox if not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semel_admin::OrderStore;
use semel_backends::store;
use semel_config::{Settings, StoreUrl};
use semel_core::{Clock, Code, Error, Result};
use semel_operate::pipelines::{OrderedPause, ordered_pauses};
use semel_outbox::{Event, Observer};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{EVERY, KnownOrder, MENTION, PATIENCE, Pauses, SILENCE, is_passing, within};
use crate::notice::{Notice, Reporter};
use crate::status::Status;

/// The orders about relays whose outboxes are not in the worker's own store.
pub(crate) struct RelayOrders(Vec<Arc<Place>>);

/// A database with outboxes.
struct Place {
    url: StoreUrl,
    pauses: Arc<Pauses>,
    /// The store beside the outbox, as it was found last.
    store: watch::Sender<OrderStore>,
}

impl RelayOrders {
    /// The orders about the relays of a worker, none of which is known yet.
    pub(crate) fn of(settings: &Settings) -> Self {
        let mut elsewhere: Vec<(&StoreUrl, Vec<Box<str>>)> = Vec::new();
        for relay in &settings.relays {
            if relay.store == settings.store {
                continue;
            }
            let name = relay.name.clone();
            match elsewhere.iter_mut().find(|(url, _)| **url == relay.store) {
                Some((_, names)) => names.push(name),
                None => elsewhere.push((&relay.store, vec![name])),
            }
        }
        let places = elsewhere.into_iter().map(|(url, names)| {
            Arc::new(Place {
                url: url.clone(),
                pauses: Pauses::about(names),
                store: watch::Sender::new(OrderStore::Unseen),
            })
        });
        Self(places.collect())
    }

    /// Returns the names of the relays whose orders the worker's own store has.
    pub(crate) fn here(settings: &Settings) -> impl Iterator<Item = Box<str>> {
        let relays = settings.relays.iter();
        let here = relays.filter(|it| it.store == settings.store);
        here.map(|it| it.name.clone())
    }

    /// Returns the orders about a relay; none if the worker's own store has them.
    pub(crate) fn about(&self, relay: &str) -> Option<&Arc<Pauses>> {
        let mut places = self.0.iter();
        let place = places.find(|it| it.pauses.0.contains_key(relay));
        place.map(|it| &it.pauses)
    }

    /// Returns, for each of these relays, the channel that has the store of its orders.
    pub(crate) fn stores(&self) -> BTreeMap<Box<str>, watch::Receiver<OrderStore>> {
        let places = self.0.iter();
        let all = places.flat_map(|place| {
            let names = place.pauses.0.keys();
            names.map(|name| (name.clone(), place.store.subscribe()))
        });
        all.collect()
    }

    /// Begins to ask for the orders, again and again.
    pub(crate) fn watch(
        &self,
        beside: &mut JoinSet<()>,
        (status, reporter, clock): (&Arc<Status>, &Arc<dyn Reporter>, &Arc<dyn Clock>),
    ) {
        for place in &self.0 {
            let asking = Asking {
                place: Arc::clone(place),
                status: Arc::clone(status),
                reporter: Arc::clone(reporter),
                clock: Arc::clone(clock),
            };
            beside.spawn(asking.run());
        }
    }
}

impl Place {
    /// Notes what keeps the store from being open, for whoever gives an order. One that is open stays so: it answers for
    /// itself.
    fn note(&self, asked: &Result<Option<Vec<Option<OrderedPause>>>>) {
        let found = match asked {
            Ok(Some(_)) => return,
            Ok(None) => OrderStore::Absent,
            Err(error) => OrderStore::Failed(store::at_store(&self.url, error.clone())),
        };
        self.store.send_if_modified(|known| {
            let is_open = matches!(known, OrderStore::Open(_));
            if !is_open {
                *known = found;
            }
            !is_open
        });
    }
}

/// Asks one database.
struct Asking {
    place: Arc<Place>,
    status: Arc<Status>,
    reporter: Arc<dyn Reporter>,
    clock: Arc<dyn Clock>,
}

impl Asking {
    async fn run(self) {
        let pauses = &self.place.pauses;
        let mut away_since = None;
        let mut tell_at = Instant::now() + SILENCE;
        let mut is_without_store_told = false;
        loop {
            let asked = within(PATIENCE, self.orders()).await;
            self.place.note(&asked);
            let now = Instant::now();
            let stands_in_the_way = match &asked {
                Ok(_) => false,
                Err(error) => pauses.is_unknown() && keeps_from_running(error),
            };
            if !stands_in_the_way && let Some(since) = away_since.take() {
                let lasted = now.saturating_duration_since(since);
                self.tell_of_outbox(&Event::OutboxBack { lasted });
            }
            let rest = match asked {
                Ok(orders) => {
                    tell_at = now + SILENCE;
                    let is_there = orders.is_some();
                    if !is_there && !is_without_store_told {
                        is_without_store_told = true;
                        let store = &self.place.url;
                        self.reporter.report(&Notice::NoRelayOrders(store));
                    }
                    pauses.know(orders.unwrap_or_else(|| vec![None; pauses.0.len()]));
                    if is_there { EVERY } else { RELUCTANCE }
                }
                Err(error) if stands_in_the_way => {
                    if away_since.is_none() {
                        away_since = Some(now);
                        self.tell_of_outbox(&Event::OutboxAway { error: &error });
                    }
                    EVERY
                }
                Err(error) => {
                    let is_passing = keeps_from_running(&error);
                    let has_begun = pauses.run_unless_known();
                    // One that is away for a moment is told of by the relays.
                    if has_begun || now >= tell_at {
                        tell_at = now + MENTION;
                        let error = store::at_store(&self.place.url, error);
                        self.reporter.report(&Notice::RelayOrdersUnread(&error));
                    }
                    if is_passing { EVERY } else { RELUCTANCE }
                }
            };
            sleep(rest).await;
        }
    }

    /// Reads the orders; nothing if there is no store beside the outbox.
    async fn orders(&self) -> Result<Option<Vec<Option<OrderedPause>>>> {
        let known = self.place.store.borrow().clone();
        let store = if let OrderStore::Open(store) = known {
            store
        } else {
            let opened = store::beside_outbox(&self.place.url, Arc::clone(&self.clock)).await?;
            let Some(store) = opened else {
                return Ok(None);
            };
            let known = OrderStore::Open(store.clone());
            self.place.store.send_replace(known);
            store
        };
        let names: Vec<_> = self.place.pauses.0.keys().cloned().collect();
        ordered_pauses(&store, &names).await.map(Some)
    }

    /// Tells of the outbox for its relays, which have not begun.
    fn tell_of_outbox(&self, event: &Event<'_>) {
        for relay in self.place.pauses.0.keys() {
            self.status.relays().observe(relay, event);
            self.reporter.report(&Notice::Relay { relay, event });
        }
    }
}

impl Pauses {
    /// Tells whether the store was not asked yet.
    fn is_unknown(&self) -> bool {
        let mut orders = self.0.values();
        orders.any(|it| *it.borrow() == KnownOrder::Unknown)
    }

    /// Lets everything run of which no order is known; tells whether that is anything.
    fn run_unless_known(&self) -> bool {
        let mut has_begun = false;
        for order in self.0.values() {
            has_begun |= order.send_if_modified(|known| {
                let is_unknown = *known == KnownOrder::Unknown;
                if is_unknown {
                    *known = KnownOrder::Run;
                }
                is_unknown
            });
        }
        has_begun
    }
}

/// Tells whether a relay whose orders were never read waits for them. The outbox is in the same database: until that
/// answers, there is nothing to publish. A newer store may have an order that a newer version was given, so that a worker
/// that is rolled back does not publish what is paused. Otherwise, whoever runs a relay may have no right to read the store
/// beside its outbox, or its tables are those of another program, which keeps no orders.
fn keeps_from_running(error: &Error) -> bool {
    match error.code() {
        Code::StoreNewer => true,
        Code::StoreForeign => false,
        _ => is_passing(error),
    }
}

/// The time between two looks where there is no store, or none that can be read.
const RELUCTANCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
