//! Input: versions of accounts, to be applied in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::{Moments, Payment, Payments, Stream};

/// A seeded stream in which each account's versions rise, with older ones and repeats in between.
#[derive(Clone, Debug)]
pub struct Versions {
    /// The stream; of its payments, those are to be carried out that were the newest of their account in it, and no
    /// others.
    pub payments: Payments,
    /// The ids that came behind a newer or equal version.
    pub stale: BTreeSet<String>,
    /// Account and version of each id.
    of: BTreeMap<String, (u64, u64)>,
    accounts: u64,
    /// The newest version of each account.
    newest: BTreeMap<u64, u64>,
    /// The moves, each once.
    lines: Vec<String>,
}

impl Versions {
    /// `count` moves of this many accounts: one of twenty is older than the one before it, and behind one of twenty
    /// an earlier one is repeated byte for byte, any distance back.
    pub fn generate(accounts: u64, count: usize, moments: &mut Moments) -> Self {
        let mut this = Self {
            payments: Payments {
                ndjson: String::new(),
                distinct: BTreeSet::new(),
                deliveries: 0,
            },
            stale: BTreeSet::new(),
            of: BTreeMap::new(),
            accounts,
            newest: BTreeMap::new(),
            lines: Vec::with_capacity(count),
        };
        this.extend(count, moments);
        this
    }

    fn put(&mut self, line: &str) {
        writeln!(self.payments.ndjson, "{line}").expect("a string takes what is written");
        self.payments.deliveries += 1;
    }

    /// The payments that were carried out behind a newer or equal version of their account.
    pub fn out_of_order(&self, carried_out: &[String]) -> Vec<String> {
        let mut newest: BTreeMap<u64, u64> = BTreeMap::new();
        let mut late = Vec::new();
        for id in carried_out {
            let Some((account, version)) = self.of.get(id) else {
                late.push(format!("{id}: nobody asked for it"));
                continue;
            };
            let newest = newest.entry(*account).or_default();
            if *version <= *newest {
                late.push(format!(
                    "{id}: version {version} of account {account} behind {newest}"
                ));
            }
            *newest = (*newest).max(*version);
        }
        late
    }
}

impl Stream for Versions {
    fn payments(&self) -> &Payments {
        &self.payments
    }

    fn extend(&mut self, count: usize, moments: &mut Moments) {
        for index in self.lines.len()..self.lines.len() + count {
            let account = moments.below(self.accounts);
            let newest = self.newest.entry(account).or_default();
            let is_stale = *newest > 0 && moments.below(20) == 0;
            let version = if is_stale {
                1 + moments.below(*newest)
            } else {
                *newest + 1 + moments.below(3)
            };
            let id = format!("move-{index:06}-{:08x}", moments.below(1 << 32));
            if is_stale {
                self.stale.insert(id.clone());
            } else {
                *newest = version;
                self.payments.distinct.insert(Payment {
                    id: id.clone(),
                    amount: version,
                });
            }
            let line = format!(
                r#"{{"id":"{id}","account":"acc-{account}","version":{version},"amount":{version}}}"#
            );
            self.of.insert(id, (account, version));
            self.put(&line);
            self.lines.push(line);
            if moments.below(20) == 0 {
                let earlier = moments.below(self.lines.len() as u64);
                let line = self.lines[usize::try_from(earlier).unwrap_or(0)].clone();
                self.put(&line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_carried_out_behind_a_newer_version_is_late() {
        let versions = Versions::generate(2, 40, &mut Moments::seeded(1));
        let mut order: Vec<String> = versions
            .payments
            .distinct
            .iter()
            .map(|it| it.id.clone())
            .collect();
        // Ids are numbered as they come.
        assert_eq!(versions.out_of_order(&order), [""; 0]);
        let first = order.remove(0);
        order.push(first.clone());
        let stale = versions.stale.first().expect("one of twenty").clone();
        order.push(stale.clone());
        let late = versions.out_of_order(&order);
        assert_eq!(late.len(), 2, "{late:?}");
        assert!(late[0].starts_with(&first) && late[1].starts_with(&stale));
    }
}
