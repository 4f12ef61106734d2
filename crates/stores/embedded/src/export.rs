//! Everything out, page by page: first the token, then the ledger, the parked messages, the audit
//! trail. A cursor names the next part and the position in it.

mod page;

use std::mem::{Discriminant, discriminant};

use bytes::Bytes;
use semel_core::Result;

use crate::ledger::{Part, foreign_cursor};

pub(crate) use page::ExportPage;

/// The next part of an export.
#[derive(Clone, Debug)]
pub(crate) enum Cursor {
    Start,
    Ledger(Part),
    /// Parked messages from this order on.
    Parked(u64),
    /// Entries of the audit trail from this order on.
    Audited(u64),
}

impl Cursor {
    /// Returns the kind of items that come next.
    pub(crate) fn kind(&self) -> (Discriminant<Self>, Option<Discriminant<Part>>) {
        let part = match self {
            Self::Ledger(part) => Some(discriminant(part)),
            Self::Start | Self::Parked(_) | Self::Audited(_) => None,
        };
        (discriminant(self), part)
    }

    pub(crate) fn encode(&self) -> Bytes {
        let (lead, order) = match self {
            Self::Start => return Bytes::new(),
            Self::Ledger(part) => return part.encode(),
            Self::Parked(order) => (b'p', order),
            Self::Audited(order) => (b'a', order),
        };
        let mut bytes = vec![lead];
        bytes.extend_from_slice(&order.to_be_bytes());
        bytes.into()
    }

    pub(crate) fn decode(bytes: Option<&[u8]>) -> Result<Self> {
        let Some(bytes) = bytes else {
            return Ok(Self::Start);
        };
        let order = |order: &[u8]| {
            let order = order.try_into().map_err(|_| foreign_cursor())?;
            Ok(u64::from_be_bytes(order))
        };
        match bytes.split_first() {
            Some((b'p', rest)) => order(rest).map(Self::Parked),
            Some((b'a', rest)) => order(rest).map(Self::Audited),
            Some(_) | None => Part::decode(bytes).map(Self::Ledger),
        }
    }
}
