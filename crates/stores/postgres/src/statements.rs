//! Statements of users: checked, prepared, bound to values that the server converts.

use std::error::Error as StdError;

use bytes::{BufMut, Bytes, BytesMut};
use deadpool_postgres::Object;
use deadpool_postgres::tokio_postgres::types::{Format, IsNull, Kind as TypeKind, ToSql, Type};
use deadpool_postgres::tokio_postgres::{self, Statement};
use semel_core::json::{Document, Kind, Node};
use semel_core::port::transactional::{Statements, Value};
use semel_core::{Error, ErrorKind, Result};

use crate::error::{one_line, undone};
use crate::placeholders::numbered;

/// A statement ready to run.
pub(crate) struct Prepared {
    pub(crate) statement: Statement,
    /// Index of the value that each parameter takes.
    pub(crate) values: Vec<usize>,
}

/// Prepares every statement.
///
/// # Errors   `InvalidConfig`, in the database's own words where it has some
pub(crate) async fn prepare(client: &Object, statements: &Statements) -> Result<Vec<Prepared>> {
    prepare_all(client, statements, false).await
}

/// Prepares every statement anew. A connection's prepared statement keeps the types that the columns had then; a value
/// that does not fit those may fit the present ones.
pub(crate) async fn prepare_anew(
    client: &Object,
    statements: &Statements,
) -> Result<Vec<Prepared>> {
    prepare_all(client, statements, true).await
}

async fn prepare_all(
    client: &Object,
    statements: &Statements,
    anew: bool,
) -> Result<Vec<Prepared>> {
    let mut is_used = vec![false; statements.params.len()];
    let mut prepared = Vec::with_capacity(statements.sql.len());
    for (index, text) in statements.sql.iter().enumerate() {
        let one = prepare_one(client, index + 1, text, statements, anew).await?;
        for place in &one.values {
            is_used[*place] = true;
        }
        prepared.push(one);
    }
    if prepared.is_empty() {
        return Err(invalid("the sql effect has no statement"));
    }
    let mut unused = statements.params.iter().zip(is_used);
    match unused.find(|(_, is_used)| !is_used) {
        Some((name, _)) => Err(invalid(&format!("no statement has a placeholder :{name}"))),
        None => Ok(prepared),
    }
}

async fn prepare_one(
    client: &Object,
    number: usize,
    text: &str,
    statements: &Statements,
    anew: bool,
) -> Result<Prepared> {
    let numbered = numbered(text).map_err(|why| invalid(&format!("statement {number} {why}")))?;
    let word = numbered.first_word.to_ascii_uppercase();
    if word.is_empty() {
        return Err(invalid(&format!("statement {number} is empty")));
    }
    if FORBIDDEN.contains(&&*word) {
        return Err(invalid(&format!(
            "statement {number} begins with {word}, but it runs inside a transaction of the store; leave it out"
        )));
    }
    let value = |name: &&str| {
        let place = statements.params.iter().position(|param| **param == **name);
        place.ok_or_else(|| {
            invalid(&format!(
                "statement {number} has :{name}, but params has no {name}"
            ))
        })
    };
    let values = numbered
        .names
        .iter()
        .map(value)
        .collect::<Result<Vec<_>>>()?;
    if anew {
        client.statement_cache.remove(&numbered.sql, &[]);
    }
    let statement = match client.prepare_cached(&numbered.sql).await {
        Ok(statement) => statement,
        Err(error) => {
            let Some(db) = error.as_db_error() else {
                return Err(undone(error));
            };
            if !is_about_statement(db.code().code()) {
                return Err(undone(error));
            }
            let said = one_line(db.message());
            if said.contains("multiple commands") {
                return Err(invalid(&format!(
                    "statement {number} holds several; give them one by one as `statements = [...]`"
                )));
            }
            return Err(invalid(&format!("statement {number}: {said}")).with_source(error));
        }
    };
    Ok(Prepared { statement, values })
}

/// Tells whether an error with this code is about the statement: not about a server that goes down, a connection, a lock
/// or memory.
fn is_about_statement(code: &str) -> bool {
    let class = code.get(..2).unwrap_or_default();
    code != "55P03" && !["08", "40", "53", "57", "58"].contains(&class)
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

/// A value as it goes to the server: as text, which the server reads as the type that it wants. So a
/// number keeps every digit, and whatever type has a text form can be bound: integers, `numeric`,
/// `timestamptz`, `uuid`, `jsonb`, `bytea`, enums, domains, arrays of these.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bound(Value);

impl From<&Value> for Bound {
    fn from(value: &Value) -> Self {
        Self(value.clone())
    }
}

impl ToSql for Bound {
    fn to_sql(
        &self,
        wanted: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        let wanted = base(wanted);
        match &self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::Boolean(value) => out.put_slice(if *value { b"true" } else { b"false" }),
            Value::Number(text) => out.put_slice(text.as_bytes()),
            Value::Text(text) => put_text(text, wanted, out),
            Value::Bytes(bytes) => put_bytes(bytes, wanted, out),
            Value::Json(text) => put_json(text, wanted, out),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    fn to_sql_checked(
        &self,
        wanted: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        self.to_sql(wanted, out)
    }
}

/// Returns the type behind a domain.
fn base(wanted: &Type) -> &Type {
    match wanted.kind() {
        TypeKind::Domain(inner) => base(inner),
        _ => wanted,
    }
}

fn put_text(text: &str, wanted: &Type, out: &mut BytesMut) {
    if *wanted == Type::BYTEA {
        put_hex(text.as_bytes(), out);
    } else if [Type::JSON, Type::JSONB].contains(wanted) {
        let mut json = Vec::new();
        semel_core::json::write_string(text, &mut json);
        out.put_slice(&json);
    } else {
        out.put_slice(text.as_bytes());
    }
}

fn put_bytes(bytes: &Bytes, wanted: &Type, out: &mut BytesMut) {
    if *wanted == Type::BYTEA {
        put_hex(bytes, out);
    } else {
        out.put_slice(bytes);
    }
}

/// Writes an array into an array, element by element; anything else as JSON.
fn put_json(text: &str, wanted: &Type, out: &mut BytesMut) {
    if *wanted == Type::BYTEA {
        // Its own text form would take a backslash for something else.
        return put_hex(text.as_bytes(), out);
    }
    let document = match wanted.kind() {
        TypeKind::Array(_) => Document::parse(text.as_bytes()).ok(),
        _ => None,
    };
    match &document {
        Some(document) if document.root().kind() == Kind::Array => {
            put_array(document.root(), element(wanted), out);
        }
        // An empty object would read as an empty array.
        Some(document) if document.root().kind() == Kind::Object => {
            out.put_slice(b"object ");
            out.put_slice(text.as_bytes());
        }
        Some(_) | None => out.put_slice(text.as_bytes()),
    }
}

fn element(array: &Type) -> &Type {
    match array.kind() {
        TypeKind::Array(element) => base(element),
        _ => array,
    }
}

/// Writes an array as `{1,"two",NULL,{3}}`.
fn put_array(array: Node<'_>, element: &Type, out: &mut BytesMut) {
    out.put_u8(b'{');
    for (at, node) in array.children().enumerate() {
        if at > 0 {
            out.put_u8(b',');
        }
        match node.kind() {
            Kind::Null => out.put_slice(b"NULL"),
            Kind::Array if ![Type::JSON, Type::JSONB].contains(element) => {
                put_array(node, element, out);
            }
            Kind::Text => {
                let mut text = BytesMut::new();
                put_text(&node.text(), element, &mut text);
                put_quoted(&text, out);
            }
            Kind::Bool(_) | Kind::Number | Kind::Array | Kind::Object => {
                let mut text = BytesMut::new();
                put_json(node.raw(), element, &mut text);
                put_quoted(&text, out);
            }
        }
    }
    out.put_u8(b'}');
}

fn put_quoted(text: &[u8], out: &mut BytesMut) {
    out.put_u8(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

fn put_hex(bytes: &[u8], out: &mut BytesMut) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.put_slice(b"\\x");
    for byte in bytes {
        out.put_u8(DIGITS[usize::from(byte >> 4)]);
        out.put_u8(DIGITS[usize::from(byte & 15)]);
    }
}

/// Meaning of a failed statement for its message.
pub(crate) enum ErrorClass {
    /// It will never succeed with these values.
    Hopeless(Box<str>),
    /// Another try may succeed.
    Passing(Box<str>),
    /// It says nothing about the message: the whole batch is undone.
    Batch(tokio_postgres::Error),
}

/// Judges the failure of a statement.
pub(crate) fn classify(error: tokio_postgres::Error) -> ErrorClass {
    let Some(db) = error.as_db_error() else {
        return ErrorClass::Batch(error);
    };
    let words = || one_line(db.message()).into();
    match db.code().code() {
        "57014" | "55P03" => ErrorClass::Passing(words()),
        code if is_hopeless(code) => ErrorClass::Hopeless(words()),
        _ => ErrorClass::Batch(error),
    }
}

/// Returns whether a message that fails so will fail again: bad values, broken constraints, more than an index or a
/// parser can hold, a view's check option, an error raised by a function or a trigger.
pub(crate) fn is_hopeless(code: &str) -> bool {
    const CLASSES: [&str; 11] = [
        "09", "20", "22", "23", "27", "2F", "38", "39", "44", "54", "P0",
    ];
    ["21000", "42804", "42846"].contains(&code)
        || CLASSES.iter().any(|class| code.starts_with(class))
}

/// First words of statements that would end the transaction, cannot run inside one, or would outlive it.
const FORBIDDEN: &[&str] = &[
    "BEGIN",
    "START",
    "COMMIT",
    "END",
    "ROLLBACK",
    "ABORT",
    "SAVEPOINT",
    "RELEASE",
    "PREPARE",
    "DEALLOCATE",
    "SET",
    "RESET",
    "DISCARD",
    "LISTEN",
    "UNLISTEN",
    "VACUUM",
    "COPY",
    "EXPLAIN",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_goes_down_says_nothing_about_a_statement() {
        for code in [
            "57P01", "57P02", "57P03", "08006", "53300", "40P01", "55P03",
        ] {
            assert!(!is_about_statement(code), "{code}");
        }
        for code in ["42601", "42P01", "42703", "22P02", "0A000"] {
            assert!(is_about_statement(code), "{code}");
        }
    }

    fn bound(value: Value, wanted: &Type) -> String {
        let mut out = BytesMut::new();
        let _ = Bound(value).to_sql(wanted, &mut out).expect("bound");
        String::from_utf8(out.to_vec()).expect("text")
    }

    #[test]
    fn a_value_is_written_as_its_column_reads_it() {
        let text = |text: &str| Value::Text(text.into());
        let json = |text: &str| Value::Json(text.into());
        assert_eq!(bound(text("a\"b"), &Type::TEXT), "a\"b");
        assert_eq!(bound(text("a\"b"), &Type::JSONB), r#""a\"b""#);
        assert_eq!(bound(text("\u{1}z"), &Type::BYTEA), "\\x017a");
        assert_eq!(
            bound(Value::Bytes(Bytes::from_static(&[0, 255])), &Type::BYTEA),
            "\\x00ff"
        );
        assert_eq!(bound(json(r#"{"a":1}"#), &Type::JSONB), r#"{"a":1}"#);
        assert_eq!(
            bound(json("[1,null,[2]]"), &Type::INT8_ARRAY),
            r#"{"1",NULL,{"2"}}"#
        );
        assert_eq!(
            bound(json(r#"["a,\\\"b"]"#), &Type::TEXT_ARRAY),
            r#"{"a,\\\"b"}"#
        );
        assert_eq!(bound(json(r"[1]"), &Type::JSONB), "[1]");
        assert_eq!(bound(json(r"[1]"), &Type::BYTEA), "\\x5b315d");
        assert_eq!(
            bound(
                Value::Number("98765432109876543210.5".into()),
                &Type::NUMERIC
            ),
            "98765432109876543210.5"
        );
    }
}
