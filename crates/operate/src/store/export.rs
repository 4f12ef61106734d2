//! The entry of an export in the audit trail.

use semel_core::port::transfer::{AnyTransferStore, Item, TransferStore};
use semel_core::{Audited, Note, Result, Timestamp};

/// Leaves the entry of an export of a store at work in its audit trail, and so in the export itself.
///
/// # Errors
///
/// Those of the store.
pub async fn note_export(store: &AnyTransferStore, note: Note, at: Timestamp) -> Result<()> {
    let entry = Audited {
        at,
        note,
        action: "export".into(),
        scope: None,
        key: None,
        before: "".into(),
        after: "begun, with all that the store holds".into(),
    };
    let entry = Item::Audited(Box::new(entry));
    store.import([entry].into()).await.map(|_| ())
}
