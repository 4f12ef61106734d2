//! An operation id as two columns: the indexed part, and the rest that is compared.

use semel_core::OpId;

/// Returns the indexed and the compared part of an operation id.
pub(crate) fn halves(id: &OpId) -> (&[u8; 8], &[u8]) {
    id.as_bytes()
        .split_first_chunk()
        .expect("an operation id has 32 bytes")
}

/// Returns the indexed part of an operation id, as it is stored.
pub(crate) fn tag(id: OpId) -> i64 {
    let (tag, _) = halves(&id);
    i64::from_be_bytes(*tag)
}
