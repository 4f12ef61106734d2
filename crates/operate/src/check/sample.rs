//! Reads captured messages as a pipeline would: which messages yield a key, which do not and why, which keys
//! occur again, and which occur again with another fingerprint.

use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use semel_config::PipelineSettings;
use semel_core::fingerprint::{Comparison, Fingerprint};
use semel_core::port::source::{Fetched, Source};
use semel_core::{ClaimId, Operation, Result, Start, Unusable as Reason};
use semel_engine::pipeline::{Incoming, Pipeline, Scratch};
use semel_worker::settings::EffectSettings;
use serde::{Deserialize, Serialize};

use crate::value::tenant;

/// The findings in a sample.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// The name of the file.
    pub file: String,
    /// True if it was read to its end.
    pub complete: bool,
    /// Messages that were read.
    pub messages: u64,
    /// Messages that yield a key, duplicates and conflicts among them.
    pub keyed: u64,
    /// Different keys.
    pub keys: u64,
    /// Repetitions of the same message.
    pub redelivered: u64,
    /// Repetitions of the same key in another message with the same content.
    pub republished: u64,
    /// Repetitions of the same key in a message with other content.
    pub conflicts: u64,
    /// The first of the conflicts.
    pub first_conflicts: Vec<Conflict>,
    /// Messages without a tenant, although their pipeline has tenants; they are among the unusable ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub without_tenant: u64,
    /// Messages without a usable key or tenant, by reason.
    pub unusable: BTreeMap<Box<str>, Unusable>,
}

/// Two messages with the same key and different content.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Conflict {
    /// Their key.
    pub key: String,
    /// Their tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The place of the first of them.
    pub first_at: Box<str>,
    /// The place of the other.
    pub again_at: Box<str>,
}

/// Messages that yield no key, for one reason.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Unusable {
    /// The number of these messages.
    pub count: u64,
    /// The places of the first few.
    pub first_at: Vec<Box<str>>,
}

impl Sample {
    /// Reads at most `limit` messages of `source` in the way that `settings` say; `file` is its name in the
    /// report.
    ///
    /// # Errors
    ///
    /// Those of the source.
    pub async fn read(
        file: String,
        source: impl Source,
        settings: &PipelineSettings,
        limit: u64,
    ) -> Result<Self> {
        let mut pipeline = settings.pipeline.clone();
        if let EffectSettings::Sql(binding) = &settings.effect {
            pipeline.bind = Some(Arc::new(binding.clone()));
        }
        let mut reading = Reading {
            sample: Self {
                file,
                ..Self::default()
            },
            scratch: Scratch::new(&pipeline, Start::Unmarked),
            pipeline,
            seen: HashMap::new(),
        };
        reading.read(source, limit).await?;
        Ok(reading.sample)
    }

    /// Lists the codes of messages without a usable key, each with its count and the places of the first few.
    pub fn reasons(&self) -> String {
        let reasons = self.unusable.iter().map(|(code, unusable)| {
            let Unusable { count, first_at } = unusable;
            let more = if *count > first_at.len() as u64 {
                ", …"
            } else {
                ""
            };
            format!("{count} {code} ({}{more})", first_at.join(", "))
        });
        reasons.collect::<Vec<_>>().join("; ")
    }

    /// Lists the first conflicts, each with its key and the places of its two messages.
    pub fn conflicting(&self) -> String {
        let conflicts = self.first_conflicts.iter().map(|conflict| {
            let Conflict {
                key,
                tenant,
                first_at,
                again_at,
            } = conflict;
            let tenant = tenant.as_deref().map(|name| format!(" of {name}"));
            let tenant = tenant.unwrap_or_default();
            format!("{key}{tenant} ({first_at}, {again_at})")
        });
        conflicts.collect::<Vec<_>>().join("; ")
    }
}

struct Reading {
    sample: Sample,
    pipeline: Pipeline,
    seen: HashMap<Operation, First>,
    scratch: Scratch,
}

/// The first message of an operation.
struct First {
    fingerprint: Option<Fingerprint>,
    transport: Option<Vec<u8>>,
    coordinates: Box<str>,
}

impl Reading {
    async fn read(&mut self, mut source: impl Source, limit: u64) -> Result<()> {
        loop {
            let rest = limit - self.sample.messages;
            // One more than wanted shows whether that was all.
            let most = usize::try_from(rest).unwrap_or(usize::MAX).clamp(1, 1_000);
            let deliveries = match source.fetch(most).await? {
                Fetched::Deliveries(_) if rest == 0 => break,
                Fetched::Deliveries(deliveries) => deliveries,
                Fetched::Revoked(_) | Fetched::Back | Fetched::Elsewhere { .. } => continue,
                Fetched::Away(error) => return Err(error),
                Fetched::Ended => {
                    self.sample.complete = true;
                    break;
                }
            };
            for delivery in deliveries {
                self.sample.messages += 1;
                // The check claims nothing.
                let claim_id = ClaimId::from_u128(0);
                match self.pipeline.read(delivery, claim_id, &mut self.scratch) {
                    Ok(incoming) => self.note(&incoming),
                    Err(rejected) => {
                        let has_none = matches!(rejected.unusable, Reason::TenantMissing { .. });
                        self.sample.without_tenant += u64::from(has_none);
                        let code = rejected.parked.reason.clone();
                        let unusable = self.sample.unusable.entry(code).or_default();
                        unusable.count += 1;
                        if unusable.first_at.len() < MOST_SHOWN {
                            unusable
                                .first_at
                                .push((*rejected.parked.coordinates).into());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, incoming: &Incoming) {
        let sample = &mut self.sample;
        sample.keyed += 1;
        let request = &incoming.request;
        match self.seen.entry(request.operation.detached()) {
            Entry::Vacant(vacant) => {
                sample.keys += 1;
                vacant.insert(First {
                    fingerprint: request.fingerprint,
                    transport: request.transport.as_deref().map(<[u8]>::to_vec),
                    coordinates: (*incoming.coordinates).into(),
                });
            }
            Entry::Occupied(seen) => {
                let first = seen.get();
                let is_other = first
                    .fingerprint
                    .zip(request.fingerprint)
                    .is_some_and(|(first, again)| first.compare(again) == Comparison::Different);
                if is_other {
                    sample.conflicts += 1;
                    if sample.first_conflicts.len() < MOST_SHOWN {
                        sample.first_conflicts.push(Conflict {
                            key: seen.key().key.to_string(),
                            tenant: tenant(&seen.key().scope).map(str::to_owned),
                            first_at: first.coordinates.clone(),
                            again_at: (*incoming.coordinates).into(),
                        });
                    }
                } else if first.transport.as_deref() == request.transport.as_deref() {
                    sample.redelivered += 1;
                } else {
                    sample.republished += 1;
                }
            }
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the member by reference"
)]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The number of places that are shown per kind; more are only counted.
const MOST_SHOWN: usize = 5;
