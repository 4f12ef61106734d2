//! Drops messages that were set aside, page by page.

use std::sync::Arc;

use semel_core::port::store::Store;
use semel_core::{AnyStore, Note, Parked, ParkedId, Result, Timestamp};

use super::Search;

impl Search {
    /// Drops the selected messages that were parked at `until` or earlier: a message that is parked after the plan was
    /// made stays. Passes the ids of each group to `visit`, with whether each was still there.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn remove(
        &self,
        store: &AnyStore,
        until: Timestamp,
        note: &Note,
        mut visit: impl FnMut(&[ParkedId], &[bool]) + Send,
    ) -> Result<()> {
        let mut groups = self.groups();
        while let Some(found) = groups.next(store).await? {
            let messages = found.iter().map(|it| &it.message);
            let ids: Arc<[_]> = messages
                .filter(|message| message.since <= until)
                .map(Parked::id)
                .collect();
            if !ids.is_empty() {
                let dropped = store.drop_parked(Arc::clone(&ids), Some(note)).await?;
                visit(&ids, &dropped);
            }
        }
        Ok(())
    }
}
