//! Orders that transactions make, each with a message about it; and what is wrong with the messages that arrived.

use std::collections::{BTreeMap, BTreeSet};

use crate::Moments;

/// An order as its message tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    /// Names it: no other has the same.
    pub(crate) label: String,
    /// Its account, which is the order key; empty if it has none.
    pub(crate) account: String,
    /// An amount.
    pub(crate) amount: u64,
}

/// The place of an order among those of its account: the number that the transaction got from the account, which rises in
/// the order of commits, and the place within the transaction.
pub(crate) type Place = (u64, u64);

/// A transaction.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    /// Its orders, in the order of their messages.
    pub(super) orders: Vec<Order>,
    pub(super) end: End,
    /// True if it stays open for a while between its messages and its end.
    pub(super) is_late: bool,
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Commit,
    Rollback,
    /// Its client dies.
    Death,
}

impl Transaction {
    /// The next transaction of a writer.
    pub(super) fn next(writer: usize, number: u64, moments: &mut Moments) -> Self {
        let end = match moments.below(64) {
            0..8 => End::Rollback,
            8 => End::Death,
            _ => End::Commit,
        };
        let count = 1 + moments.below(6);
        let orders = (0..count).map(|place| Order {
            label: format!("w{writer}-{number}-{place}"),
            account: match moments.below(5) {
                0 => String::new(),
                _ => format!("k{}", moments.below(ACCOUNTS)),
            },
            amount: 1 + moments.below(10_000),
        });
        Self {
            orders: orders.collect(),
            end,
            is_late: moments.below(20) == 0,
        }
    }

    /// Its accounts, each once and in order.
    pub(super) fn accounts(&self) -> BTreeSet<&str> {
        let accounts = self.orders.iter().map(|it| &*it.account);
        accounts.filter(|it| !it.is_empty()).collect()
    }
}

impl Order {
    /// The message about it.
    pub(crate) fn message(&self) -> String {
        let Self {
            label,
            account,
            amount,
        } = self;
        format!(r#"{{"label":"{label}","account":"{account}","amount":{amount}}}"#)
    }

    /// Reads a message; nothing if it is none.
    pub(crate) fn of_message(text: &str) -> Option<Self> {
        let message: serde_json::Value = serde_json::from_str(text).ok()?;
        Some(Self {
            label: message["label"].as_str()?.to_owned(),
            account: message["account"].as_str()?.to_owned(),
            amount: message["amount"].as_u64()?,
        })
    }

    /// Reads a row `label|account|amount`, and the fields behind these.
    ///
    /// # Panics
    ///
    /// If it is none.
    pub(crate) fn of_row(row: &str) -> (Self, Vec<u64>) {
        let mut fields = row.split('|');
        let mut next = || fields.next().expect("a field");
        let (label, account) = (next().to_owned(), next().to_owned());
        let amount = next().parse().expect("a number");
        let order = Self {
            label,
            account,
            amount,
        };
        let rest = fields.map(|it| it.parse().expect("a number"));
        (order, rest.collect())
    }
}

/// Returns the number of repeats among what arrived in `place`, if nothing is wrong with it.
///
/// # Panics
///
/// Something is
pub(crate) fn repeats(place: &str, committed: &BTreeMap<Order, Place>, arrived: &[Order]) -> u64 {
    let (wrong, repeats) = judged(committed, arrived);
    let some: Vec<_> = wrong.iter().take(10).collect();
    let count = wrong.len();
    assert!(wrong.is_empty(), "{place}: {count} are wrong: {some:#?}");
    repeats
}

/// The faults of the messages that arrived, in their order, and the number of repeats. `committed` has every order
/// that is in the producer's table.
fn judged(committed: &BTreeMap<Order, Place>, arrived: &[Order]) -> (Vec<String>, u64) {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    let mut places: BTreeMap<&str, (Place, &Order)> = BTreeMap::new();
    let mut repeats = 0;
    for order in arrived {
        let Some(place) = committed.get(order) else {
            wrong.push(format!("{order:?} was published, and not committed"));
            continue;
        };
        if !seen.insert(order) {
            repeats += 1;
            continue;
        }
        if order.account.is_empty() {
            continue;
        }
        if let Some((before, other)) = places.insert(&order.account, (*place, order))
            && before > *place
        {
            wrong.push(format!("{order:?} came after {other:?}"));
        }
    }
    let lost = committed.keys().filter(|order| !seen.contains(order));
    wrong.extend(lost.map(|order| format!("{order:?} was committed, and never published")));
    (wrong, repeats)
}

/// The labels with this begin that came more than once.
pub(super) fn repeated<'o>(arrived: &'o [Order], begin: &str) -> BTreeSet<&'o str> {
    let labels = arrived.iter().map(|it| &*it.label);
    let mut seen = BTreeSet::new();
    let these = labels.filter(|it| it.starts_with(begin));
    these.filter(|it| !seen.insert(*it)).collect()
}

/// The number of accounts.
pub(super) const ACCOUNTS: u64 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn order(label: &str, account: &str) -> Order {
        Order {
            label: label.to_owned(),
            account: account.to_owned(),
            amount: 7,
        }
    }

    #[test]
    fn what_is_lost_unasked_or_out_of_order_is_wrong() {
        let orders = [
            order("a", "k1"),
            order("b", "k1"),
            order("c", ""),
            order("d", ""),
        ];
        let places = [(1, 0), (2, 0), (0, 0), (0, 0)];
        let committed: BTreeMap<_, _> = orders.iter().cloned().zip(places).collect();
        let [a, b, c, d] = orders;
        let all = [
            d.clone(),
            a.clone(),
            b.clone(),
            a.clone(),
            b.clone(),
            c.clone(),
        ];
        assert_eq!(judged(&committed, &all), (vec![], 2));
        let twice: Vec<_> = repeated(&all, "").into_iter().collect();
        assert_eq!(twice, ["a", "b"]);
        assert!(repeated(&all, "c").is_empty());
        let undone = order("e", "k1");
        let (wrong, repeats) = judged(&committed, &[b, a, undone, c]);
        let words = ["came after", "and not committed", "never published"];
        assert_eq!((wrong.len(), repeats), (words.len(), 0), "{wrong:?}");
        for (wrong, words) in wrong.iter().zip(words) {
            assert!(wrong.contains(words), "{wrong}");
        }
        assert!(wrong[2].contains(&d.label), "{wrong:?}");
    }

    #[test]
    fn a_message_and_a_row_tell_an_order_again() {
        let written = order("w0-1-0", "k3");
        assert_eq!(Order::of_message(&written.message()), Some(written.clone()));
        assert_eq!(Order::of_row("w0-1-0|k3|7|4|1"), (written, vec![4, 1]));
        assert_eq!(Order::of_message("{}"), None);
    }
}
