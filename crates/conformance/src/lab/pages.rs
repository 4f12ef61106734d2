//! Lists, page by page and whole.

use semel_core::port::store::{ListQuery, Listed, Page};
use semel_core::{Audited, Parked, Store};

use super::{Lab, MOST_PAGES, answered};

impl Lab {
    /// A page of records.
    pub async fn page(&self, query: &ListQuery) -> Page<Listed> {
        answered(self.store().list(query).await, "list")
    }

    /// A page of parked messages.
    pub async fn parked_page(&self, query: &ListQuery) -> Page<Parked> {
        answered(self.store().list_parked(query).await, "list_parked")
    }

    /// A page of the audit trail.
    pub async fn audit_page(&self, query: &ListQuery) -> Page<Audited> {
        answered(self.store().list_audit(query).await, "list_audit")
    }

    /// Every record that `query` selects, over all its pages.
    pub async fn list(&self, query: &ListQuery) -> Vec<Listed> {
        whole!(self.page of query)
    }

    /// Every parked message that `query` selects, over all its pages.
    pub async fn list_parked(&self, query: &ListQuery) -> Vec<Parked> {
        whole!(self.parked_page of query)
    }

    /// Every entry of the audit trail that `query` selects, over all its pages.
    pub async fn list_audit(&self, query: &ListQuery) -> Vec<Audited> {
        whole!(self.audit_page of query)
    }

    /// The whole audit trail.
    pub async fn audit(&self) -> Vec<Audited> {
        self.list_audit(&ListQuery {
            limit: 100,
            ..ListQuery::default()
        })
        .await
    }
}

/// All pages of a query. A function would have to name the future of its closure.
macro_rules! whole {
    ($lab:ident . $page:ident of $query:ident) => {{
        let (mut query, mut all) = ($query.clone(), Vec::new());
        for _ in 0..MOST_PAGES {
            let page = $lab.$page(&query).await;
            assert!(
                page.items.len() <= query.limit,
                "a page is longer than its limit"
            );
            all.extend(page.items);
            query.after = page.next;
            if query.after.is_none() {
                return all;
            }
        }
        panic!("a list of {} items does not end", all.len());
    }};
}
use whole;
