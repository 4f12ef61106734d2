//! Input: payments with redeliveries and republished messages in between.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::Moments;

/// One payment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Payment {
    /// The business key.
    pub id: String,
    /// Its amount.
    pub amount: u64,
}

/// A seeded stream of payments.
#[derive(Clone, Debug)]
pub struct Payments {
    /// The stream, one JSON message per line.
    pub ndjson: String,
    /// The distinct payments in it.
    pub distinct: BTreeSet<Payment>,
    /// Lines in the stream.
    pub deliveries: u64,
}

/// Messages, as many as a storm takes.
pub trait Stream {
    /// All of them so far, with the expected result.
    fn payments(&self) -> &Payments;

    /// Adds this many new ones, with repeats.
    fn extend(&mut self, count: usize, moments: &mut Moments);
}

impl Stream for Payments {
    fn payments(&self) -> &Payments {
        self
    }

    fn extend(&mut self, count: usize, moments: &mut Moments) {
        let more = Self::repeated(count, 20, moments);
        self.ndjson += &more.ndjson;
        self.distinct.extend(more.distinct);
        self.deliveries += more.deliveries;
    }
}

impl Payment {
    /// Returns whether a provider that checks payments refuses this one for good.
    pub fn is_refused(&self) -> bool {
        self.amount <= REFUSED
    }
}

impl Payments {
    /// `count` distinct payments; behind each eighth one an earlier one is repeated, half of them byte
    /// for byte and half under a new event id.
    pub fn generate(count: usize, moments: &mut Moments) -> Self {
        Self::repeated(count, 8, moments)
    }

    /// The same, with a repeat behind one of `one_in`, of a payment any distance back.
    pub fn repeated(count: usize, one_in: u64, moments: &mut Moments) -> Self {
        let mut payments: Vec<Payment> = Vec::with_capacity(count);
        let (mut ndjson, mut deliveries) = (String::new(), 0);
        let mut write = |payment: &Payment, event: u64| {
            let Payment { id, amount } = payment;
            let line = format!(r#"{{"id":"{id}","amount":{amount},"event":"evt_{event}"}}"#);
            writeln!(ndjson, "{line}").expect("a string takes what is written");
            deliveries += 1;
        };
        for index in 0..count {
            let id = format!("pay-{index:06}-{:08x}", moments.below(1 << 32));
            let payment = Payment {
                id,
                amount: 1 + moments.below(10_000),
            };
            write(&payment, index as u64);
            payments.push(payment);
            if moments.below(one_in) == 0 {
                let earlier = moments.below(payments.len() as u64);
                let event = if moments.below(2) == 0 {
                    earlier
                } else {
                    1_000_000 + index as u64
                };
                let payment = payments[usize::try_from(earlier).unwrap_or(0)].clone();
                write(&payment, event);
            }
        }
        Self {
            ndjson,
            distinct: payments.into_iter().collect(),
            deliveries,
        }
    }

    /// Removes everything behind the payment with this number.
    pub fn end_behind(&mut self, last: u64) {
        let is_asked = |id: &str| number(id).is_some_and(|number| number <= last);
        let lines = self.ndjson.lines();
        let lines = lines.take_while(|line| line.split('"').nth(3).is_some_and(is_asked));
        let lines: Vec<&str> = lines.collect();
        self.deliveries = lines.len() as u64;
        self.ndjson = lines.join("\n") + "\n";
        self.distinct.retain(|payment| is_asked(&payment.id));
    }

    /// Checks that each payment was charged once and nothing else was: a charge is `ID AMOUNT`.
    ///
    /// # Panics
    ///
    /// If it is not so.
    pub fn assert_charged_once(&self, charges: &[String]) {
        let wrong = self.wrong(charges);
        let some: Vec<_> = wrong.iter().take(10).collect();
        assert!(wrong.is_empty(), "{} are wrong, as {some:?}", wrong.len());
    }

    /// Those that are refused, by their ids.
    pub fn refused(&self) -> BTreeSet<&str> {
        let refused = self.distinct.iter().filter(|it| it.is_refused());
        refused.map(|it| &*it.id).collect()
    }

    /// The payments that were not charged once, by id, with the number of their charges.
    ///
    /// # Panics
    ///
    /// If a charge is not of the form `ID AMOUNT`.
    pub fn wrong(&self, charges: &[String]) -> Vec<(String, String)> {
        let mut times: BTreeMap<Payment, u32> = BTreeMap::new();
        for charge in charges {
            let (id, amount) = charge.split_once(' ').expect("an id and an amount");
            let payment = Payment {
                id: id.to_owned(),
                amount: amount.parse().expect("an amount"),
            };
            *times.entry(payment).or_default() += 1;
        }
        let lost = self.distinct.iter().filter(|it| !times.contains_key(it));
        let lost = lost.map(|it| (it.id.clone(), "never charged".to_owned()));
        let extra = times.iter().filter_map(|(it, times)| {
            let what = match (self.distinct.contains(it), times) {
                (true, 1) => return None,
                (true, times) => format!("charged {times} times"),
                (false, _) => format!("charged {} unasked", it.amount),
            };
            Some((it.id.clone(), what))
        });
        lost.chain(extra).collect()
    }
}

/// The number in `pay-000007-0123abcd`: they are counted as they are generated.
pub(crate) fn number(id: &str) -> Option<u64> {
    id.strip_prefix("pay-")?.split('-').next()?.parse().ok()
}

/// One payment in 250: they have any amount up to 10,000.
const REFUSED: u64 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_behind_a_payment_is_left_out_with_its_repeats() {
        let mut payments = Payments::generate(100, &mut Moments::seeded(1));
        let whole = payments.clone();
        payments.end_behind(40);
        assert_eq!(payments.distinct.len(), 41);
        assert_eq!(payments.ndjson.lines().count() as u64, payments.deliveries);
        assert!(payments.deliveries >= 41 && whole.ndjson.starts_with(&payments.ndjson));
        payments.end_behind(1_000);
        assert_eq!(payments.distinct.len(), 41);
    }

    #[test]
    fn what_was_not_charged_once_is_wrong() {
        let payments = Payments::generate(4, &mut Moments::seeded(1));
        let charge = |it: &Payment| format!("{} {}", it.id, it.amount);
        let right: Vec<String> = payments.distinct.iter().map(charge).collect();
        assert_eq!(payments.wrong(&right), []);
        let unasked = "pay-x 7".to_owned();
        let charges = [
            right[0].clone(),
            right[0].clone(),
            right[1].clone(),
            unasked,
        ];
        let wrong = payments.wrong(&charges);
        let wrong: BTreeSet<&str> = wrong.iter().map(|(_, what)| &**what).collect();
        let expected = ["charged 2 times", "charged 7 unasked", "never charged"];
        assert_eq!(wrong, expected.into());
    }
}
