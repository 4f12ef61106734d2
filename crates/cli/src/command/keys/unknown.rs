//! Reports a key that is not on record, and suggests where else it might be.

use std::sync::Arc;

use semel_core::port::store::Store;
use semel_core::{Key, Operation, Record, Result, Scope};
use semel_render::names::place_text;

use crate::command::operate::Ground;
use crate::output::{self, key_text, state_text};

/// Reports that `operation` is not on record, and suggests what comes near: the same key in other pipelines of
/// the configuration, and the same text as a number or as a string.
///
/// # Cost   one call of the store
async fn tell_unknown(ground: &Ground, operation: &Operation) -> Result<()> {
    tell_all_unknown(ground, std::slice::from_ref(operation)).await
}

/// Reports the same of many operations, with suggestions for the first few.
pub(crate) async fn tell_all_unknown(ground: &Ground, unknown: &[Operation]) -> Result<()> {
    let near: Vec<_> = unknown
        .iter()
        .take(LOOKED_AROUND)
        .map(|it| near(ground, it))
        .collect();
    let records = ground.store.get(near.concat().into()).await?;
    let mut records = records.into_iter();
    for (at, operation) in unknown.iter().enumerate() {
        output::note(format_args!(
            "there is no record of {} in {}",
            key_text(operation.key.as_str()),
            place_text(&operation.scope)
        ));
        let Some(near) = near.get(at) else {
            continue;
        };
        let mut is_elsewhere = false;
        for (operation, record) in near.iter().zip(&mut records) {
            if let Some(record) = record {
                is_elsewhere = true;
                tell_near(ground, operation, &record);
            }
        }
        if !is_elsewhere {
            tell_why(ground, &operation.scope);
        }
    }
    Ok(())
}

/// Reports that `key` is on record in none of these; if no pipeline is known, there are none at all.
pub(crate) async fn tell_missing(ground: &Ground, key: &Key, unknown: &[Operation]) -> Result<()> {
    if let [only] = unknown {
        return tell_unknown(ground, only).await;
    }
    output::note(format_args!(
        "there is no record of {} in any pipeline",
        key_text(key.as_str())
    ));
    let other = unknown.iter().filter_map(|operation| {
        let key = otherwise_typed(&operation.key)?;
        Some(Operation::new(operation.scope.clone(), key))
    });
    let other: Arc<[_]> = other.collect();
    let records = ground.store.get(Arc::clone(&other)).await?;
    let found = other.iter().zip(records);
    let mut is_elsewhere = false;
    for (operation, record) in found.filter_map(|(operation, record)| Some((operation, record?))) {
        is_elsewhere = true;
        tell_near(ground, operation, &record);
    }
    if let Some(first) = unknown.first().filter(|_| !is_elsewhere) {
        tell_why(ground, &first.scope);
    }
    Ok(())
}

fn tell_near(ground: &Ground, operation: &Operation, record: &Record) {
    output::note(format_args!(
        "  {} has {}, {}: {}",
        place_text(&operation.scope),
        key_text(operation.key.as_str()),
        state_text(record.state.kind()),
        ground.command("keys show", operation),
    ));
}

fn tell_why(ground: &Ground, scope: &Scope) {
    let window = ground.pipeline_of(scope).map(|settings| {
        let window = settings.pipeline.window.duration();
        format!(" after {}", semel_core::units::duration_text(window))
    });
    output::note(format_args!(
        "  it was never claimed, or its record was forgotten{} (a finished key is kept for its window)",
        window.unwrap_or_default()
    ));
}

/// The other operations that the operator may mean.
fn near(ground: &Ground, operation: &Operation) -> Vec<Operation> {
    let mut scopes = vec![operation.scope.clone()];
    let configured = ground.pipelines.iter().map(|settings| &settings.pipeline);
    scopes.extend(configured.filter_map(|pipeline| match pipeline.tenant {
        None => Some(pipeline.scope.clone()),
        // The same tenant is the one that is meant.
        Some(_) => Scope::new(operation.scope.tenant(), &pipeline.name).ok(),
    }));
    scopes.dedup();
    let other = otherwise_typed(&operation.key);
    let keys: Vec<_> = std::iter::once(&operation.key).chain(&other).collect();
    let pairs = scopes.iter().flat_map(|scope| {
        keys.iter()
            .map(|key| Operation::new(scope.clone(), (*key).clone()))
    });
    pairs.filter(|near| near != operation).collect()
}

/// The number that a text looks like, or the text that a number looks like.
fn otherwise_typed(key: &Key) -> Option<Key> {
    let text = key.as_str();
    match text.strip_prefix("json:") {
        Some(json) => Key::new(json.trim_matches('"')).ok(),
        None => Key::parse(&format!("json:{text}")).ok(),
    }
}

/// The number of unknown keys for which suggestions are looked up.
const LOOKED_AROUND: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Key {
        Key::parse(text).expect("a key")
    }

    #[test]
    fn a_number_may_have_been_meant_as_a_text_and_the_reverse() {
        assert_eq!(otherwise_typed(&parsed("42")), Some(parsed("json:42")));
        assert_eq!(otherwise_typed(&parsed("json:42")), Some(parsed("42")));
        assert_eq!(otherwise_typed(&parsed("pay-1")), None);
    }
}
