//! The pages.

pub(crate) mod audit;
pub(crate) mod doubts;
pub(crate) mod key;
pub(crate) mod message;
pub(crate) mod orders;
pub(crate) mod overview;
pub(crate) mod producers;
pub(crate) mod runs;
pub(crate) mod set_aside;
pub(crate) mod store;
pub(crate) mod window;

use semel_http::Caller;
use serde_json::{Value, json};

use crate::api::Api;

/// Asks for the last hour of these families alone: of a worker with many pipelines, all of them are a megabyte.
async fn series<const N: usize>(api: &Api, caller: &Caller, families: [&str; N]) -> Value {
    let mut items = Vec::new();
    for family in families {
        // Without them, a page has no plots.
        let told = api.get(caller, "/v1/series", &[("family", family)]).await;
        if let Ok(Value::Array(more)) = told.map(|mut it| it["items"].take()) {
            items.extend(more);
        }
    }
    json!({ "items": items })
}
