//! The layers of a pipeline over the store that it shares with others.

use std::sync::Arc;

use semel_config::{Cache, Front};
use semel_core::{AnyStore, Clock, Entropy, Result};
use semel_engine::layer::approximate::Approximate;
use semel_engine::layer::tiered::{CacheHits, Tiered};
use semel_worker::run::Stores;
use serde::{Deserialize, Serialize};

/// The layer before a pipeline's store, kept for its figures.
#[derive(Clone, Debug, Default)]
pub enum Layer {
    /// No layer.
    #[default]
    None,
    /// A cache.
    Cache(Arc<Tiered<AnyStore>>),
    /// A filter in place of the store.
    Approximate(Arc<Approximate<AnyStore>>),
}

/// The figures of a layer; members of a run's summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerFigures {
    /// Those of a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheFigures>,
    /// Those of a filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approximate: Option<ApproximateFigures>,
}

/// The figures of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheFigures {
    /// Claims that the cache answered without the store.
    pub answered: u64,
    /// Claims that the cache answered by reading the record.
    pub read: u64,
    /// Claims that the cache passed on to the store.
    pub asked: u64,
    /// The bytes of what it keeps.
    pub kept_bytes: u64,
}

/// The figures of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApproximateFigures {
    /// Messages that the filter skipped: duplicates and, at the error rate, new ones.
    pub skipped: u64,
    /// Claims for which the filter had no room.
    pub refused: u64,
    /// Unused keys that were looked up, one for each claim.
    #[serde(skip)]
    pub probes: u64,
    /// Those of them that the filter took for known.
    #[serde(skip)]
    pub mistaken: u64,
    /// The operations that the filter remembers.
    pub remembered: u64,
    /// The size of the filter.
    pub filter_bytes: u64,
    /// The error rate that the settings declare.
    pub declared_error_rate: f64,
    /// The error rate, measured by looking up keys that nobody used.
    pub measured_error_rate: Option<f64>,
}

impl Layer {
    /// Puts the layers of a pipeline before its store. A cache notes in `hits` the claims that it answers.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`, and those of the layers.
    pub fn over(
        front: &Front,
        stores: Stores,
        clock: &Arc<dyn Clock>,
        entropy: &dyn Entropy,
        hits: Option<&Arc<CacheHits>>,
    ) -> Result<(Stores, Self)> {
        match front {
            Front::None => Ok((stores, Self::None)),
            Front::Cache(Cache { settings, .. }) => {
                let cache = Tiered::new(stores.store, *settings, Arc::clone(clock));
                let cache = match hits {
                    Some(hits) => cache.noting(Arc::clone(hits)),
                    None => cache,
                };
                let cache = Arc::new(cache);
                let store = AnyStore::new(Arc::clone(&cache));
                Ok((Stores { store, ..stores }, Self::Cache(cache)))
            }
            Front::Approximate(settings) => {
                let clock = Arc::clone(clock);
                let filter = Approximate::new(stores.store, settings.clone(), clock, entropy)?;
                let filter = Arc::new(filter);
                let stores = Stores {
                    store: AnyStore::new(Arc::clone(&filter)),
                    checkpoints: None,
                    transactions: None,
                    transfer: None,
                    lent: None,
                };
                Ok((stores, Self::Approximate(filter)))
            }
        }
    }

    /// Returns the figures of the layer so far.
    pub fn figures(&self) -> LayerFigures {
        match self {
            Self::None => LayerFigures::default(),
            Self::Cache(cache) => {
                let figures = cache.statistics();
                LayerFigures {
                    cache: Some(CacheFigures {
                        answered: figures.answered,
                        read: figures.read,
                        asked: figures.asked,
                        kept_bytes: figures.kept_bytes,
                    }),
                    approximate: None,
                }
            }
            Self::Approximate(filter) => {
                let figures = filter.statistics();
                LayerFigures {
                    cache: None,
                    approximate: Some(ApproximateFigures {
                        skipped: figures.skipped,
                        refused: figures.refused,
                        probes: figures.probes,
                        mistaken: figures.mistaken,
                        remembered: figures.remembered,
                        filter_bytes: figures.filter_bytes,
                        declared_error_rate: figures.declared,
                        measured_error_rate: figures.measured(),
                    }),
                }
            }
        }
    }
}
