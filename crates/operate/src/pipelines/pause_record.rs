//! The record by which a store keeps the order to pause a pipeline.
//!
//! Its key is the name of the pipeline, and its scope tells in which way the pipeline is paused. The order stands while
//! the record is held: a hold is given together with its entry in the audit trail, and keeps the record beyond its window.
//! Its outcome says who gave the order, when and why.

use semel_core::port::store::Store;
use semel_core::{
    AnyStore, Key, Note, Operation, Outcome, Record, Result, Scope, State, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::value::Time;

/// A way in which a pipeline is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseKind {
    /// Effects that run are finished, and everything else in hand is given back.
    Pause,
    /// Everything in hand is finished.
    Drain,
}

/// The order to pause a pipeline, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OrderedPause {
    /// The way in which it is paused.
    #[serde(rename = "order")]
    pub kind: PauseKind,
    /// The time of the order.
    #[serde(serialize_with = "time")]
    pub since: Timestamp,
    /// The person who gave it.
    pub by: Box<str>,
    /// The reason that was given; may be empty.
    pub reason: Box<str>,
}

/// The outcome of the record.
#[derive(Serialize, Deserialize)]
struct Kept {
    by: Box<str>,
    reason: Box<str>,
    at: u64,
}

impl PauseKind {
    /// Every way, the one that goes before the other first.
    pub const ALL: [Self; 2] = [Self::Pause, Self::Drain];

    /// The name of the order.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Drain => "drain",
        }
    }

    /// Returns the operation whose record is the order for a pipeline.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: no pipeline has such a name
    pub(super) fn operation(self, pipeline: &str) -> Result<Operation> {
        let scope =
            Scope::new("", self.scope()).map_err(|error| unusable(pipeline, &error.to_string()))?;
        let key = Key::new(pipeline).map_err(|error| unusable(pipeline, &error.to_string()))?;
        Ok(Operation::new(scope, key))
    }

    /// The operation name of the records.
    const fn scope(self) -> &'static str {
        let [pause, drain] = Scope::OF_ORDERS;
        match self {
            Self::Pause => pause,
            Self::Drain => drain,
        }
    }

    /// Returns the way whose records have this operation name.
    pub(crate) fn of_scope(scope: &Scope) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|it| scope.tenant().is_empty() && scope.operation() == it.scope())
    }
}

impl OrderedPause {
    /// Reads the order that a record is; none if it is none.
    fn of(kind: PauseKind, record: &Record) -> Option<Self> {
        let State::Completed { at, .. } = record.state else {
            return None;
        };
        if !record.held {
            return None;
        }
        let kept = match &record.outcome {
            Some(Outcome::Kept { bytes, .. }) => serde_json::from_slice::<Kept>(bytes).ok(),
            Some(Outcome::TooLarge { .. }) | None => None,
        };
        // Held by hand, with `keys hold`: an order all the same.
        let kept = kept.unwrap_or_else(|| Kept {
            by: "".into(),
            reason: "".into(),
            at: at.as_millis(),
        });
        Some(Self {
            kind,
            since: Timestamp::from_millis(kept.at),
            by: kept.by,
            reason: kept.reason,
        })
    }
}

/// Reads the orders about these pipelines: for each its order, and none for one that is to run.
///
/// # Cost
///
/// One round trip: two records of each pipeline
///
/// # Errors
///
/// Those of the store; `InvalidInput`: a name that no pipeline has
pub async fn ordered_pauses(
    store: &AnyStore,
    pipelines: &[impl AsRef<str> + Sync],
) -> Result<Vec<Option<OrderedPause>>> {
    let mut operations = Vec::with_capacity(pipelines.len() * PauseKind::ALL.len());
    for pipeline in pipelines {
        for kind in PauseKind::ALL {
            operations.push(kind.operation(pipeline.as_ref())?);
        }
    }
    let records = store.get(operations.into()).await?;
    let of_each = records.chunks(PauseKind::ALL.len()).map(|records| {
        let kinds = PauseKind::ALL.into_iter().zip(records);
        let mut orders =
            kinds.filter_map(|(kind, record)| OrderedPause::of(kind, record.as_ref()?));
        orders.next()
    });
    Ok(of_each.collect())
}

/// The outcome that says who ordered a pause, and why.
pub(super) fn outcome(note: &Note, at: Timestamp) -> Outcome {
    let kept = Kept {
        by: note.by.clone(),
        reason: note.reason.clone(),
        at: at.as_millis(),
    };
    Outcome::Kept {
        codec: 0,
        bytes: serde_json::to_vec(&kept).unwrap_or_default().into(),
    }
}

fn unusable(pipeline: &str, why: &str) -> semel_core::Error {
    let message = format!("`{pipeline}` names no pipeline: {why}");
    semel_core::Error::new(semel_core::ErrorKind::InvalidInput, message)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is the one that serde calls"
)]
fn time<S: serde::Serializer>(at: &Timestamp, to: S) -> std::result::Result<S::Ok, S::Error> {
    Time(*at).serialize(to)
}
