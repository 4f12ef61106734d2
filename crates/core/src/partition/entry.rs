//! One committed operation, as an image remembers it.

use bytes::Bytes;

use crate::claim::ClaimRequest;
use crate::fingerprint::{Comparison, Fingerprint};
use crate::ids::{ClaimId, FencingToken};
use crate::key::OpId;
use crate::outcome::Outcome;
use crate::record::{Record, State};
use crate::time::Timestamp;
use crate::window::Window;

/// One operation that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The leading half of the operation's id.
    pub id: u128,
    /// Scheme and half of the digest of its fingerprint.
    pub fingerprint: Option<(u32, u64)>,
    /// A digest of the transport id of the message that it was committed for.
    pub transport: u64,
}

impl Entry {
    /// The entry of an operation that was committed for this request.
    pub fn of(id: OpId, request: &ClaimRequest) -> Self {
        let fingerprint = request.fingerprint.map(|it| (it.scheme, short(it.digest)));
        let transport = request.transport.as_ref().map_or(0, |it| digest(it));
        Self {
            id: leading(id),
            fingerprint,
            transport,
        }
    }

    /// The record that stands for an operation that was committed at `at`. The image keeps only digests of
    /// fingerprint and transport id, so a digest that equals the request's is taken for the request's own value, and
    /// any other for another one; without a request neither value is known.
    pub fn record(
        &self,
        at: Timestamp,
        window: Window,
        request: Option<&ClaimRequest>,
        token: FencingToken,
    ) -> Record {
        let fingerprint = request.and_then(|request| self.fingerprint_beside(request.fingerprint));
        let transport = request.and_then(|request| request.transport.as_ref());
        let transport = transport.map(|requested| {
            if digest(requested) == self.transport {
                requested.clone()
            } else {
                Bytes::new()
            }
        });
        Record {
            state: State::Completed { at, window },
            fingerprint,
            members: None,
            transport,
            // The id of no claimant: the caller has another one.
            claim_id: ClaimId::from_u128(0),
            token,
            claimed_at: at,
            attempts: 1,
            vanished: 0,
            possible_repeats: 0,
            doubt: None,
            past: Vec::new(),
            created_at: at,
            first_started_at: None,
            last_error: None,
            gate: None,
            held: false,
            outcome: Some(Outcome::empty()),
        }
    }

    fn fingerprint_beside(&self, requested: Option<Fingerprint>) -> Option<Fingerprint> {
        let (scheme, digest) = self.fingerprint?;
        let same = requested.filter(|it| (it.scheme, short(it.digest)) == (scheme, digest));
        let mut other = Fingerprint {
            scheme,
            digest: [0; 16],
        };
        if requested.is_some_and(|it| it.compare(other) == Comparison::Same) {
            other.digest = [1; 16];
        }
        Some(same.unwrap_or(other))
    }
}

/// The first half of the digest that names an operation: 128 bits, which no two of them share.
pub(super) fn leading(id: OpId) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&id.as_bytes()[..16]);
    u128::from_be_bytes(bytes)
}

fn short(digest: [u8; 16]) -> u64 {
    let mut half = [0; 8];
    half.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(half)
}

/// A digest that tells one transport id from another for people; it decides only how a duplicate is named. FNV-1a.
pub(super) fn digest(transport: &[u8]) -> u64 {
    transport.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
