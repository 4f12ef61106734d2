//! The store port over the filter.

use std::sync::Arc;

use semel_core::decide::{Directed, Directive};
use semel_core::port::store::{Capabilities, Durability, ListQuery, Listed, Page, Stats, Swept};
use semel_core::{
    Admission, Audited, ClaimRequest, Error, ErrorKind, Note, Operation, Parked, ParkedId, Record,
    Renewal, Renewed, Result, Settled, Settlement, StateKind, Store,
};

use super::Approximate;

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Approximate<S> {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        let (mut state, now) = self.locked();
        // Every claim tidies a little, so that no separate task has to.
        state.unfinished.sweep(TIDIED, now);
        let wait = self.until_room(&state);
        let requests = batch.iter();
        Ok(requests.map(|it| state.claim(it, now, wait)).collect())
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        let (mut state, now) = self.locked();
        Ok(batch.iter().map(|it| state.settle(it, now)).collect())
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let (mut state, now) = self.locked();
        let renewals = batch.iter();
        let renewed = renewals.map(|it| state.unfinished.renew(it.operation.id(), it, now));
        Ok(renewed.collect())
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        if semel_core::planted("A06") {
            return Ok(vec![true; batch.len()]);
        }
        self.kept.park(batch).await
    }

    async fn drop_parked(&self, batch: Arc<[ParkedId]>, note: Option<&Note>) -> Result<Vec<bool>> {
        self.kept.drop_parked(batch, note).await
    }

    /// Returns records of unfinished operations; finished ones have no record.
    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        let (state, now) = self.locked();
        let records = batch.iter().map(|it| state.unfinished.get(&it.id()));
        Ok(records
            .map(|record| record.filter(|it| !it.is_forgotten(now)).cloned())
            .collect())
    }

    /// Lists unfinished operations.
    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        let (state, now) = self.locked();
        state.unfinished.list(query, now)
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        self.kept.list_parked(query).await
    }

    /// Carries out orders about unfinished operations that have no note: a note would leave no
    /// entry.
    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let (mut state, now) = self.locked();
        let mut answers = Vec::with_capacity(batch.len());
        for directive in &*batch {
            if directive.note.is_some() {
                answers.push(Directed::Failed(unaudited()));
                continue;
            }
            let id = directive.operation.id();
            let directed = state.unfinished.operate(id, directive, now);
            if matches!(directed, Directed::Now(Some(StateKind::Completed))) {
                state.finish(id);
            }
            answers.push(directed);
        }
        Ok(answers)
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        self.kept.list_audit(query).await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        let (mut state, now) = self.locked();
        Ok(state.unfinished.sweep(limit, now))
    }

    async fn stats(&self) -> Result<Stats> {
        Ok(self.counted(&self.kept.stats().await?))
    }

    async fn estimate(&self, most: usize) -> Result<Stats> {
        Ok(self.counted(&self.kept.estimate(most).await?))
    }

    async fn preflight(&self) -> Result<Capabilities> {
        let kept = self.kept.preflight().await?;
        let share = self.settings.error_rate;
        let mut warnings = vec![
            format!(
                "APPROXIMATE: of a million new keys, up to {:.0} are taken for known, and their effects \
                 never happen",
                share * 1e6
            )
            .into(),
            "what is finished is forgotten at the end of the process, and unknown to others; a key that \
             is used for another request is not found out"
                .into(),
        ];
        warnings.extend(kept.warnings);
        Ok(Capabilities {
            kind: "approximate",
            durability: Durability::Process,
            shared: false,
            warnings,
        })
    }
}

fn unaudited() -> Error {
    let message = "an approximate store keeps no audit trail and takes no order with a note";
    Error::new(ErrorKind::Unsupported, message)
}

/// Unfinished operations visited with each batch.
const TIDIED: usize = 64;

impl<S: Store> Approximate<S> {
    /// Returns what is counted here, with what the store behind the filter counts of the rest.
    fn counted(&self, kept: &Stats) -> Stats {
        let (state, now) = self.locked();
        let records = StateKind::ALL.map(|kind| match kind {
            StateKind::Completed => state.finished.len(),
            StateKind::Claimed
            | StateKind::Started
            | StateKind::Released
            | StateKind::Dead
            | StateKind::InDoubt => state.unfinished.count(kind, now),
        });
        let mut counted = Stats::new(records);
        counted.entities = kept.entities;
        counted.parked = kept.parked;
        counted.audited = kept.audited;
        counted
    }
}
