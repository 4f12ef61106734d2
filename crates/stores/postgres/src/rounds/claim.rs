//! A round of claims: absent records are inserted, the rest decided and written.

use std::collections::HashSet;

use deadpool_postgres::tokio_postgres::Row;
use deadpool_postgres::tokio_postgres::types::ToSql;
use semel_core::ledger::{Found, Ledger, first_revision};
use semel_core::{Admission, ClaimRequest, Error, ErrorKind, FencingToken, Result, Timestamp};

use super::{Rounds, line, unasked};
use crate::columns::Asked;
use crate::connection::Runs as _;
use crate::error::{is_overtaken, is_passing, is_there, undone};
use crate::row::{self, timestamp};
use crate::session::Session;

impl Rounds<'_, Admission> {
    pub(super) async fn claim(&mut self, batch: &[ClaimRequest]) -> Result<()> {
        let keys = self.keys();
        let mut asked = Asked::default();
        for item in &keys {
            let scope = self.scopes[&self.operations[*item].scope];
            asked.push(&self.ids[*item], scope, &batch[*item]);
        }
        asked.pack();
        let wanted = self.open.iter().any(|item| batch[*item].wants_outcome);
        let now = self.session.given_now();
        let parameters: &[&(dyn ToSql + Sync)] = &[
            &now,
            &wanted,
            &asked.scope,
            &asked.lease,
            &asked.ids,
            &asked.scopes,
            &asked.keys,
            &asked.claims,
            &asked.fingerprints,
            &asked.transports,
            &asked.members,
            &asked.young_until,
            &asked.leases,
            &asked.recoveries,
        ];
        let hoped = self.insert_new(keys.len(), parameters).await?;
        if let Some(rows) = hoped {
            drop(asked);
            return self.take_new(batch, &keys, &rows).await;
        }
        let text = &self.session.texts.claim;
        let passes = |failure: &_| is_passing(failure) || is_overtaken(failure);
        let rows = self
            .session
            .run_where(self.client, text, parameters, passes)
            .await?;
        drop(asked);
        let mut ledger: Option<Ledger> = None;
        let mut spares = Vec::new();
        let mut unseen = HashSet::new();
        let mut is_new = true;
        for row in &rows {
            let (found, now) = line(row, row::COLUMNS + 2, &keys)?;
            let ledger = ledger.get_or_insert_with(|| {
                let mut ledger = Ledger::new(now);
                ledger.reserve(keys.len());
                ledger
            });
            let Some(item) = found else {
                let columns = [4, 5].map(|column| row::COLUMNS + column);
                self.take_granted(batch, &keys, (row, columns), ledger)?;
                continue;
            };
            let id = self.ids[item];
            let spare: Option<i64> = row.try_get(row::COLUMNS + 1).map_err(undone)?;
            spares.extend(spare.map(|token| FencingToken::new(token.cast_unsigned())));
            self.tell(ledger, item, row)?;
            let is_absent = ledger.record(id).is_none() && !ledger.is_damaged(id);
            let is_too_old = is_absent && is_too_old(&batch[item], now);
            if is_absent && !is_too_old {
                unseen.insert(id);
            }
            is_new &= is_too_old;
        }
        let Some(mut ledger) = ledger else {
            return Err(unanswered());
        };
        if is_new {
            self.session.new_key_run.goes_on(keys.len());
        } else {
            self.session.new_key_run.ends();
        }
        let mut tokens = spares.into_iter();
        let mut again = Vec::new();
        for item in &self.open {
            if self.is_written[*item] {
                continue;
            }
            if !unseen.contains(&self.ids[*item]) {
                self.answers[*item] = ledger.claim(self.ids[*item], &batch[*item], &mut tokens);
            }
            if self.answers[*item].is_none() {
                again.push(*item);
            }
        }
        self.write(&ledger, again).await
    }

    /// Inserts without looking the keys up first, if all keys have been new for long. Returns `None` if they have not,
    /// or if one key is there all the same: then the server has undone the whole statement.
    async fn insert_new(
        &self,
        keys: usize,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Vec<Row>>> {
        let Session {
            texts, new_key_run, ..
        } = self.session;
        if self.round > 1 || !new_key_run.is_worth_hoping(keys) {
            return Ok(None);
        }
        match self.client.rows(&texts.claim_new, parameters).await {
            Ok(rows) => Ok(Some(rows)),
            Err(failure)
                if is_passing(&failure) || is_there(&failure) || is_overtaken(&failure) =>
            {
                new_key_run.ends();
                Ok(None)
            }
            Err(failure) => Err(undone(failure)),
        }
    }

    /// Takes in the records inserted so. Those not inserted, being too old, are asked for as usual.
    async fn take_new(
        &mut self,
        batch: &[ClaimRequest],
        keys: &[usize],
        rows: &[Row],
    ) -> Result<()> {
        let row = rows.first().ok_or_else(unanswered)?;
        let now: i64 = row.try_get(2).map_err(undone)?;
        let mut ledger = Ledger::new(timestamp(now));
        ledger.reserve(keys.len());
        self.take_granted(batch, keys, (row, [0, 1]), &mut ledger)?;
        self.session.new_key_run.goes_on(keys.len());
        let mut again = Vec::new();
        for item in &self.open {
            if self.is_written[*item] {
                continue;
            }
            let id = self.ids[*item];
            if ledger.knows(id) {
                self.answers[*item] = ledger.claim(id, &batch[*item], &mut std::iter::empty());
            }
            if self.answers[*item].is_none() {
                again.push(*item);
            }
        }
        self.write(&ledger, again).await
    }

    /// Takes in the inserted records: the ledger decides as the statement did.
    fn take_granted(
        &mut self,
        batch: &[ClaimRequest],
        keys: &[usize],
        (row, [ids, tokens]): (&Row, [usize; 2]),
        ledger: &mut Ledger,
    ) -> Result<()> {
        let ids: Option<Vec<&[u8]>> = row.try_get(ids).map_err(undone)?;
        let tokens: Option<Vec<i64>> = row.try_get(tokens).map_err(undone)?;
        let granted = ids.unwrap_or_default().into_iter();
        for (id, token) in granted.zip(tokens.unwrap_or_default()) {
            let place = keys.binary_search_by_key(&id, |item| &self.ids[*item].as_bytes()[..]);
            let item = place.map(|place| keys[place]).map_err(|_| unasked())?;
            let (id, token) = (self.ids[item], FencingToken::new(token.cast_unsigned()));
            ledger.found(id, self.operations[item], Found::Absent);
            self.answers[item] = ledger.claim(id, &batch[item], &mut std::iter::once(token));
            ledger.wrote(id, first_revision(token));
            self.is_written[item] = true;
        }
        Ok(())
    }
}

fn unanswered() -> Error {
    Error::new(ErrorKind::Internal, "a claim was answered with nothing")
}

fn is_too_old(request: &ClaimRequest, now: Timestamp) -> bool {
    request
        .birth
        .is_some_and(|birth| request.window.is_too_old(birth, now))
}
