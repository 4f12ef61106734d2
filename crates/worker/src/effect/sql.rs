//! Statements of a configuration, and the places in each message of the values for their placeholders.

use std::sync::Arc;

use bytes::Bytes;

use semel_core::json::{self, Pointer};
use semel_core::port::transactional::{Statements, Value};
use semel_core::select::{Selected, Selector, View};
use semel_core::sql::{Dialect, Token};
use semel_core::{Error, ErrorKind, Result, Unusable};
use semel_engine::pipeline::Bind;

/// Statements, and a selector for each of their placeholders.
#[derive(Clone, Debug)]
pub struct SqlBinding {
    statements: Statements,
    selectors: Vec<Selector>,
}

impl SqlBinding {
    /// Binds each `:name` of `statements`, which are of this dialect, to the selector that `params` names for it, or
    /// else to `json:/name`.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: no statement, an empty one, a parameter that occurs in none of them or is
    /// named twice
    pub fn new<S: AsRef<str>>(
        dialect: Dialect,
        statements: &[S],
        params: impl IntoIterator<Item = (String, Selector)>,
    ) -> Result<Self> {
        let sql: Arc<[Box<str>]> = statements
            .iter()
            .map(|sql| sql.as_ref().trim().into())
            .collect();
        if sql.is_empty() {
            return Err(invalid(
                "an effect of kind sql needs a statement; write one",
            ));
        }
        if sql.iter().any(|sql| dialect.is_blank(sql)) {
            return Err(invalid("a statement is empty; write one or leave it out"));
        }
        let names = names(dialect, &sql);
        let mut chosen: Vec<Option<Selector>> = vec![None; names.len()];
        for (name, selector) in params {
            let bare = name.strip_prefix(':').unwrap_or(&name);
            let Some(at) = names.iter().position(|known| **known == *bare) else {
                return Err(invalid(&format!(
                    "params.{bare}: no statement has a placeholder :{bare}; use it or leave it out"
                )));
            };
            if chosen[at].replace(selector).is_some() {
                return Err(invalid(&format!(
                    "params.{bare}: it is named twice; leave one out"
                )));
            }
        }
        let selectors = chosen
            .into_iter()
            .zip(&names)
            .map(|(selector, name)| selector.map_or_else(|| default_selector(name), Ok))
            .collect::<Result<_>>()?;
        Ok(Self {
            statements: Statements {
                sql,
                params: names.into(),
            },
            selectors,
        })
    }

    /// The statements, and the names of their parameters in the order of the values.
    pub const fn statements(&self) -> &Statements {
        &self.statements
    }

    /// The place of each parameter's value, in the same order.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }
}

impl Bind for SqlBinding {
    /// The values of a message. A missing value is NULL, an object or array its JSON as written, a `CloudEvent` the
    /// array of its source and id.
    fn values(&self, view: &View<'_>) -> Result<Vec<Value>, Unusable> {
        self.selectors
            .iter()
            .map(|selector| Ok(value(view, view.select(selector)?)))
            .collect()
    }
}

/// The names of the placeholders of all statements, each once, in the order of their first use.
fn names<S: AsRef<str>>(dialect: Dialect, statements: &[S]) -> Vec<Box<str>> {
    let mut names: Vec<Box<str>> = Vec::new();
    let tokens = statements.iter().map(|sql| dialect.tokens(sql.as_ref()));
    for name in tokens.flatten().filter_map(Token::placeholder) {
        if !names.iter().any(|known| **known == *name) {
            names.push(name.into());
        }
    }
    names
}

fn value(view: &View<'_>, selected: Option<Selected<'_>>) -> Value {
    match selected {
        None | Some(Selected::Null) => Value::Null,
        Some(Selected::Bool(value)) => Value::Boolean(value),
        Some(Selected::Number(number)) => Value::Number(number.into()),
        Some(Selected::Text(text)) => Value::Text(text.into()),
        Some(Selected::Bytes(bytes)) => Value::Bytes(shared(view.message().payload, bytes)),
        Some(Selected::Event(source, id)) => {
            let mut event = vec![b'['];
            json::write_string(&source, &mut event);
            event.push(b',');
            json::write_string(&id, &mut event);
            event.push(b']');
            Value::Json(String::from_utf8_lossy(&event).into())
        }
        Some(Selected::Nested(node)) => Value::Json(node.raw().into()),
    }
}

/// A slice of the payload if `bytes` lie in it.
fn shared(payload: &Bytes, bytes: &[u8]) -> Bytes {
    let (whole, part) = (payload.as_ptr_range(), bytes.as_ptr_range());
    if whole.start <= part.start && part.end <= whole.end {
        payload.slice_ref(bytes)
    } else {
        Bytes::copy_from_slice(bytes)
    }
}

fn default_selector(name: &str) -> Result<Selector> {
    Pointer::parse(&format!("/{name}"))
        .map(Selector::Json)
        .map_err(|why| invalid(&format!("params.{name}: {why}")))
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
mod tests;
