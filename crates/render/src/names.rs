//! Pipelines, tenants and operations as people name them, and the question which of several is meant.

use std::borrow::Cow;

use semel_core::{Error, ErrorKind, Key, Operation, Record, Scope};
use semel_operate::keys::ID_DIGITS;
use semel_operate::shell::quoted;

use crate::{key_text, state_text};

/// The pipeline of a scope, and its tenant if it has one, for people.
pub fn place_text(scope: &Scope) -> Cow<'_, str> {
    match scope.tenant() {
        "" => scope.operation().into(),
        tenant => format!("{} of {}", scope.operation(), quoted(tenant)).into(),
    }
}

/// Asks which pipeline, or which tenant of one pipeline, is meant by a key that all of these scopes have; the text
/// beside each says how it stands there.
pub fn which_scope(key: &str, scopes: &[(&Scope, &str)]) -> String {
    let mut names = scopes.iter().map(|(scope, _)| scope.operation());
    let first = names.next().unwrap_or_default();
    let is_one = names.all(|name| name == first);
    let places = scopes.iter().map(|(scope, standing)| {
        let place = if is_one {
            Cow::from(quoted(scope.tenant()))
        } else {
            place_text(scope)
        };
        format!("{place}{standing}")
    });
    let places = places.collect::<Vec<_>>().join(", ");
    let key = key_text(key);
    if is_one {
        format!("which tenant? {first} has {key} of {places}; name one with --tenant NAME")
    } else {
        format!("which pipeline? {key} is in {places}; name one with --pipeline NAME")
    }
}

/// The error of a key that several pipelines, or several tenants, have.
pub fn several(key: &Key, known: &[(Operation, Record)]) -> Error {
    if known.iter().all(|(operation, _)| operation.key != *key) {
        return several_ids(key, known);
    }
    let standing = known.iter().map(|(operation, record)| {
        let state = state_text(record.state.kind());
        (&operation.scope, format!(" ({state})"))
    });
    let mut standing: Vec<_> = standing.collect();
    standing.sort_unstable();
    let standing = standing.iter().map(|(scope, state)| (*scope, &**state));
    ambiguous(which_scope(key.as_str(), &standing.collect::<Vec<_>>()))
}

/// The error of a beginning that several operation ids have.
fn several_ids(key: &Key, known: &[(Operation, Record)]) -> Error {
    // As many digits as tell most ids apart.
    let shown = SHORT.max(key.as_str().len() + 4).min(ID_DIGITS);
    let ids: Vec<_> = known
        .iter()
        .map(|(operation, _)| {
            let id = operation.id().to_string();
            let (name, key) = (
                place_text(&operation.scope),
                key_text(operation.key.as_str()),
            );
            format!("{name} {key} ({})", &id[..shown])
        })
        .collect();
    ambiguous(format!(
        "which one? several operation ids begin with {}: {}; type more of it",
        key_text(key.as_str()),
        ids.join(", ")
    ))
}

fn ambiguous(question: String) -> Error {
    Error::new(ErrorKind::InvalidInput, question)
}

/// The number of digits of an id that is shown.
const SHORT: usize = 12;
