//! A round of settlements or renewals: records that belong to the caller are written at once, the rest decided and
//! written.

use semel_core::ledger::Ledger;
use semel_core::{Renewal, Renewed, Result, Settled, Settlement, StateKind, Step};

use super::{Rounds, line, written};
use crate::columns::Blob;
use crate::row::{self, outcome_columns, span_column, window_columns};

impl Rounds<'_, Settled> {
    pub(super) async fn settle(&mut self, batch: &[Settlement]) -> Result<()> {
        let keys = self.keys();
        let alone = self.alone();
        let is_complete = |item: &usize| {
            matches!(batch[*item].step, Step::Complete { .. }) && alone.contains(item)
        };
        let (complete, others): (Vec<usize>, Vec<usize>) = keys.into_iter().partition(is_complete);
        let mut ledger = None;
        for part in sendable(batch, &complete) {
            self.complete(batch, part, &mut ledger).await?;
        }
        self.read(&others, &mut ledger).await?;
        let Some(mut ledger) = ledger else {
            self.open.clear();
            return Ok(());
        };
        self.open.retain(|item| self.answers[*item].is_none());
        self.put_gated_aside(&ledger);
        for item in &self.open {
            self.answers[*item] = Some(ledger.settle(self.ids[*item], &batch[*item]));
        }
        self.write(&ledger, Vec::new()).await
    }

    /// Completes in one statement, which also reads the records that it could not complete.
    async fn complete(
        &mut self,
        batch: &[Settlement],
        keys: &[usize],
        ledger: &mut Option<Ledger>,
    ) -> Result<()> {
        let (mut ids, mut claims, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let (mut margins, mut codecs, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
        for item in keys {
            let Step::Complete { outcome, window } = &batch[*item].step else {
                continue;
            };
            let (duration, margin) = window_columns(*window);
            let (codec, bytes) = outcome_columns(Some(outcome));
            ids.push(&self.ids[*item].as_bytes()[..]);
            claims.push(batch[*item].claim_id.to_bytes().to_vec());
            kept.push(duration);
            margins.push(margin);
            codecs.push(codec);
            outcomes.push(bytes.map(Blob));
        }
        let now = self.session.given_now();
        let text = &self.session.texts.complete;
        let rows = self
            .session
            .run(
                self.client,
                text,
                &[&now, &ids, &claims, &kept, &margins, &codecs, &outcomes],
            )
            .await?;
        for row in &rows {
            let (Some(item), now) = line(row, row::COLUMNS + 1, keys)? else {
                for item in written(row, row::COLUMNS + 3, keys)? {
                    self.answers[item] = Some(Settled::Now(StateKind::Completed));
                    self.is_written[item] = true;
                }
                continue;
            };
            let ledger = ledger.get_or_insert_with(|| Ledger::new(now));
            self.tell(ledger, item, row)?;
        }
        Ok(())
    }
}

impl Rounds<'_, Renewed> {
    pub(super) async fn renew(&mut self, batch: &[Renewal]) -> Result<()> {
        let alone = self.alone();
        let (keys, others): (Vec<usize>, Vec<usize>) = self
            .keys()
            .into_iter()
            .partition(|item| alone.contains(item));
        let mut ledger = None;
        if !keys.is_empty() {
            let ids: Vec<_> = keys
                .iter()
                .map(|item| &self.ids[*item].as_bytes()[..])
                .collect();
            let claims: Vec<_> = keys
                .iter()
                .map(|item| batch[*item].claim_id.to_bytes().to_vec())
                .collect();
            let leases: Vec<_> = keys
                .iter()
                .map(|item| span_column(batch[*item].lease))
                .collect();
            let now = self.session.given_now();
            let text = &self.session.texts.renew;
            let rows = self
                .session
                .run(self.client, text, &[&now, &ids, &claims, &leases])
                .await?;
            for row in &rows {
                let (found, now) = line(row, row::COLUMNS + 1, &keys)?;
                let Some(item) = found else {
                    for item in written(row, row::COLUMNS + 3, &keys)? {
                        self.answers[item] = Some(Renewed::Until(now.plus(batch[item].lease)));
                        self.is_written[item] = true;
                    }
                    continue;
                };
                let ledger = ledger.get_or_insert_with(|| Ledger::new(now));
                self.tell(ledger, item, row)?;
            }
        }
        self.read(&others, &mut ledger).await?;
        let Some(mut ledger) = ledger else {
            self.open.clear();
            return Ok(());
        };
        self.open.retain(|item| self.answers[*item].is_none());
        self.put_gated_aside(&ledger);
        for item in &self.open {
            self.answers[*item] = Some(ledger.renew(self.ids[*item], &batch[*item]));
        }
        self.write(&ledger, Vec::new()).await
    }
}

/// Splits completions into parts that one message to the server can hold, with the memory of both in mind.
fn sendable<'k>(batch: &[Settlement], keys: &'k [usize]) -> Vec<&'k [usize]> {
    let (mut parts, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (at, item) in keys.iter().enumerate() {
        let size = match &batch[*item].step {
            Step::Complete { outcome, .. } => {
                outcome_columns(Some(outcome)).1.map_or(0, |it| it.len())
            }
            Step::Start { .. } | Step::Release { .. } | Step::Fail { .. } => 0,
        };
        if bytes + size > MOST_BYTES && at > begin {
            parts.push(&keys[begin..at]);
            (begin, bytes) = (at, 0);
        }
        bytes += size;
    }
    if begin < keys.len() {
        parts.push(&keys[begin..]);
    }
    parts
}

/// Bytes of outcomes in one statement. PostgreSQL takes a message of 1 GiB at most, and drops the connection over a
/// longer one.
const MOST_BYTES: usize = 64 << 20;
