//! State of a reopened store, and its differences from the model.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use semel_core::port::checkpoint::CheckpointStore as _;
use semel_core::port::store::ListQuery;
use semel_core::{
    Admission, ClaimId, ClaimRequest, Clock as _, Key, Outcome, StateKind, Store as _, Timestamp,
};

use super::life::{Life, Wrong};
use super::model::Model;
use super::values::{WINDOW, all_keys, gated, operation, parked, request, told};

/// State that one of several models must match.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    records: BTreeMap<String, (StateKind, Option<Bytes>, bool)>,
    applied: Option<u64>,
    marks: BTreeMap<&'static str, u64>,
    parked: BTreeSet<u64>,
    audit: Vec<String>,
    output: String,
    now: Timestamp,
    pub(crate) token: u64,
}

impl Life {
    /// Reads the state of the opened store; asks for every key of the script.
    pub(crate) async fn find(&mut self) -> Result<Found, Wrong> {
        let keys: Vec<String> = all_keys();
        let operations: Vec<_> = keys.iter().map(|key| operation(key)).collect();
        let mut records = BTreeMap::new();
        for (key, record) in keys.iter().zip(self.store().get(operations.into()).await?) {
            let Some(record) = record else { continue };
            let outcome = match record.outcome {
                Some(Outcome::Kept { bytes, .. }) => Some(bytes),
                Some(Outcome::TooLarge { .. }) | None => None,
            };
            records.insert(key.clone(), (record.state.kind(), outcome, record.held));
        }
        let listed = self.list().await?;
        let expected: BTreeSet<_> = records.keys().cloned().collect();
        if listed != expected {
            let what = format!("listed {listed:?} but got {expected:?}");
            return Err(Wrong::Broken(what));
        }
        let (applied, token) = self.probe().await?;
        let mut marks = BTreeMap::new();
        for name in ["out", "output", "moved"] {
            marks.extend(self.store().mark(name).await?.map(|value| (name, value)));
        }
        let len = marks.get("output").copied().unwrap_or(0);
        Ok(Found {
            records,
            applied,
            parked: self.list_parked().await?,
            audit: self.list_audit().await?,
            output: self.output(len)?,
            marks,
            now: self.clock.now(),
            token,
        })
    }

    /// Returns the version that was applied, and the token of a fresh claim.
    async fn probe(&self) -> Result<(Option<u64>, u64), Wrong> {
        let probe = ClaimRequest {
            claim_id: ClaimId::from_u128(u128::from(self.token) + 77),
            ..gated("probe", 1)
        };
        let mut applied = None;
        for admission in self.store().claim([probe].into()).await? {
            match admission {
                Admission::Stale { applied: version } => applied = Some(version),
                Admission::Granted(claim) => return Ok((None, claim.token.get())),
                other => return Err(Wrong::Broken(format!("the probe: {other:?}"))),
            }
        }
        let fresh = ClaimRequest {
            claim_id: ClaimId::from_u128(99),
            ..request("fresh", false)
        };
        for admission in self.store().claim([fresh].into()).await? {
            if let Admission::Granted(claim) = admission {
                return Ok((applied, claim.token.get()));
            }
        }
        Ok((applied, 0))
    }

    async fn list(&self) -> Result<BTreeSet<String>, Wrong> {
        let mut listed = BTreeSet::new();
        let mut query = pages();
        loop {
            let page = self.store().list(&query).await?;
            for item in page.items {
                let key = item.operation.key.to_string();
                if !listed.insert(key) {
                    let what = format!("{} is listed twice", item.operation.key);
                    return Err(Wrong::Broken(what));
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(listed),
            }
        }
    }

    async fn list_parked(&self) -> Result<BTreeSet<u64>, Wrong> {
        let mut numbers = BTreeSet::new();
        let mut query = pages();
        loop {
            let page = self.store().list_parked(&query).await?;
            for message in page.items {
                let number = message.coordinates.parse();
                let number = number.map_err(|_| Wrong::Broken("coordinates".into()))?;
                if message.payload != parked(number).payload || !numbers.insert(number) {
                    let what = format!("parked message {number} is not itself");
                    return Err(Wrong::Broken(what));
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(numbers),
            }
        }
    }

    async fn list_audit(&self) -> Result<Vec<String>, Wrong> {
        let mut audit = Vec::new();
        let mut query = pages();
        loop {
            let page = self.store().list_audit(&query).await?;
            for entry in page.items {
                let key = entry.key.as_ref().map(Key::as_str);
                audit.push(told(&entry.action, key, &entry.after));
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(audit),
            }
        }
    }
}

impl Found {
    /// Returns the first difference from the model, if there is one.
    pub(crate) fn differs_from(&self, model: &Model) -> Option<String> {
        let differs = |what: &str, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
            let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
            (found != expected).then(|| format!("{what} {found}, expected {expected}"))
        };
        differs("version", &self.applied, &model.applied)
            .or_else(|| differs("marks", &self.marks, &model.marks))
            .or_else(|| differs("parked", &self.parked, &model.parked))
            .or_else(|| differs("audit", &self.audit, &model.audit))
            .or_else(|| differs("output", &self.output, &model.output))
            .or_else(|| {
                all_keys()
                    .iter()
                    .find_map(|key| self.differs_at(key, model))
            })
    }

    fn differs_at(&self, key: &str, model: &Model) -> Option<String> {
        let found = self.records.get(key);
        let Some(kept) = model.records.get(key) else {
            return found.map(|found| format!("{key} is {found:?}, expected absent"));
        };
        let is_finished = matches!(kept.kind, StateKind::Completed | StateKind::Dead) && !kept.held;
        let may_be_absent = is_finished && WINDOW.expires_at(kept.at) <= self.now;
        let must_be_absent = is_finished && WINDOW.forgotten_at(kept.at) <= self.now;
        let is_same = found.is_some_and(|(kind, outcome, held)| {
            *kind == kept.kind && *outcome == kept.outcome && *held == kept.held
        });
        let is_right = match found {
            None => may_be_absent,
            Some(_) => is_same && !must_be_absent,
        };
        (!is_right).then(|| format!("{key} is {found:?}, expected {kept:?}"))
    }
}

fn pages() -> ListQuery {
    ListQuery {
        limit: 3,
        ..ListQuery::default()
    }
}
