//! Statements of users: read, checked by the server, bound to values.
//!
//! A statement is prepared on the server, and each message sets variables and executes it with them, so
//! that many messages go in one packet and no value is ever part of a statement.

mod read;

use std::collections::BTreeSet;

use mysql_async::ServerError;
use semel_core::port::transactional::{Statements, Value};
use semel_core::{Error, ErrorKind, Result};

use crate::answer::{some_text, text};
use crate::error::{Failure, is_passing, one_line};
use crate::pool::PooledConnection;
use crate::script::{Literal, Script};
use crate::session::{Session, ask};

use self::read::Read;

/// Statements that were read, with the value that each placeholder takes.
pub(crate) struct Compiled(Vec<Read>);

impl Compiled {
    /// Reads every statement.
    ///
    /// # Errors   `InvalidConfig`
    pub(crate) fn new(statements: &Statements) -> Result<Self> {
        let mut is_used = vec![false; statements.params.len()];
        let mut compiled = Vec::with_capacity(statements.sql.len());
        for (index, text) in statements.sql.iter().enumerate() {
            let read = read::read(index + 1, text, &statements.params)?;
            for value in &read.values {
                is_used[*value] = true;
            }
            compiled.push(read);
        }
        if compiled.is_empty() {
            return Err(invalid("the sql effect has no statement"));
        }
        let mut unused = statements
            .params
            .iter()
            .zip(is_used)
            .filter(|(_, is_used)| !is_used);
        match unused.next() {
            Some((name, _)) => Err(invalid(&format!("no statement has a placeholder :{name}"))),
            None => Ok(Self(compiled)),
        }
    }

    /// Returns the statements that prepare them on a connection, two for each.
    pub(crate) fn preparation(&self, session: &Session) -> Script {
        let mut script = Script::default();
        for (index, read) in self.0.iter().enumerate() {
            let number = Literal::number(index as u64 + 1);
            let mut text = Literal::default();
            text.push_typed_text(&read.text);
            script.add(&session.texts.prepare, &[&text, &number]);
        }
        script
    }

    /// Adds their execution with the values of one message.
    pub(crate) fn add(&self, script: &mut Script, values: &[Value]) {
        if !values.is_empty() {
            let mut set = Literal::code("SET ");
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    set.push_code(",");
                }
                set.push_code(&format!("@semel.v{index}="));
                push_value(&mut set, value);
            }
            script.add_code(&set);
        }
        for (index, read) in self.0.iter().enumerate() {
            let mut execute = Literal::code(format!("EXECUTE semel${}", index + 1));
            for (place, value) in read.values.iter().enumerate() {
                execute.push_code(if place == 0 { " USING " } else { "," });
                execute.push_code(&format!("@semel.v{value}"));
            }
            script.add_code(&execute);
        }
    }

    /// Returns the error of a preparation that the server refused at this place of [`Compiled::preparation`].
    pub(crate) fn refused(&self, at: usize, error: ServerError) -> Error {
        let number = (at / 2 + 1).min(self.0.len());
        let words = one_line(&error.message);
        invalid(&format!("statement {number}: {words}")).with_source(error)
    }
}

/// Asks the server about statements, and runs nothing.
///
/// # Errors   `InvalidConfig`, in the database's own words where it has some
pub(crate) async fn prepare(
    session: &Session,
    connection: &mut PooledConnection,
    statements: &Statements,
) -> Result<()> {
    let compiled = Compiled::new(statements)?;
    match connection.run(&compiled.preparation(session)).await {
        Ok(_) => connection.ended(),
        Err(failure) if is_about_statement(&failure) => {
            connection.ended();
            let at = failure.at;
            return match failure.why {
                crate::error::Why::Refused(error) => Err(compiled.refused(at, error)),
                why => Err(Failure { at, why }.uncommitted()),
            };
        }
        Err(failure) => return Err(failure.uncommitted()),
    }
    check_engines(session, connection, &compiled).await
}

/// Returns whether the server refused a statement for its text.
pub(crate) fn is_about_statement(failure: &Failure) -> bool {
    let refusal = failure.refusal();
    refusal.is_some_and(|error| !is_passing(error.code) && !ABOUT_SESSION.contains(&error.code))
}

/// Refuses statements on tables whose rows would stay when a message is undone, whichever database they are in. A point
/// may also stand before a column: then there is hardly a database of that name.
async fn check_engines(
    session: &Session,
    connection: &mut PooledConnection,
    compiled: &Compiled,
) -> Result<()> {
    let words = compiled.0.iter().flat_map(|read| &read.words);
    let named: BTreeSet<&str> = words.filter_map(|word| word.of.as_deref()).collect();
    let databases: Vec<_> = std::iter::once(None)
        .chain(named.into_iter().map(Some))
        .collect();
    let mut script = Script::default();
    for database in &databases {
        let database = database.map_or_else(|| Literal::code("DATABASE()"), Literal::typed);
        script.add(&session.texts.engines, &[&database]);
    }
    let sets = ask(connection, &script).await?;
    for (database, set) in databases.iter().zip(&sets) {
        for row in &set.rows {
            let (table, engine) = (some_text(row, 0)?, text(row, 1)?.unwrap_or("none"));
            let is_named = |read: &Read| {
                let mut words = read.words.iter();
                words.any(|word| {
                    word.of.as_deref() == *database && word.text.eq_ignore_ascii_case(&table)
                })
            };
            if let Some(index) = compiled.0.iter().position(is_named) {
                let table = database.map_or_else(
                    || table.to_string(),
                    |database| format!("{database}.{table}"),
                );
                return Err(invalid(&format!(
                    "statement {} names the table {table}, whose engine {engine} has no transactions: what \
                     is done there could not be undone; ALTER TABLE {table} ENGINE=InnoDB",
                    index + 1
                )));
            }
        }
    }
    Ok(())
}

/// Meaning of a failed statement for its message.
pub(crate) enum ErrorClass {
    /// It will never succeed with these values.
    Hopeless(Box<str>),
    /// Another try may succeed.
    Passing(Box<str>),
    /// It says nothing about the message: the whole batch is undone.
    Batch,
    /// The tables no longer fit the statement: the whole batch is undone, and a person has to look.
    Unfit(Box<str>),
}

/// Judges the failure of a statement.
pub(crate) fn classify(error: &ServerError) -> ErrorClass {
    let words: Box<str> = one_line(&error.message).into();
    match error.code {
        1205 | 1317 | 1969 | 3024 => ErrorClass::Passing(words),
        1054 | 1064 | 1136 | 1142 | 1143 | 1146 | 1227 | 1305 | 1318 | 1370 => {
            ErrorClass::Unfit(words)
        }
        code if ABOUT_VALUES.contains(&code) => ErrorClass::Hopeless(words),
        _ if error.state != "40001"
            && VALUE_STATES
                .iter()
                .any(|state| error.state.starts_with(state)) =>
        {
            ErrorClass::Hopeless(words)
        }
        _ => ErrorClass::Batch,
    }
}

/// Adds a value as the server takes it: numbers as numbers, so that none of their digits is lost; text as text, which
/// the server turns into dates and documents; bytes as bytes.
fn push_value(out: &mut Literal, value: &Value) {
    match value {
        Value::Null => out.push_code("NULL"),
        Value::Boolean(value) => out.push_code(if *value { "1" } else { "0" }),
        Value::Number(text) if is_decimal(text) => out.push_code(text),
        Value::Number(text) | Value::Text(text) | Value::Json(text) => out.push_typed_text(text),
        Value::Bytes(bytes) => out.push_bytes(bytes),
    }
}

/// Returns whether a number is one that the server's decimals hold exactly. It is written as code, so it is checked
/// closely.
fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    is_digits(whole)
        && is_digits(part)
        && whole.len() + part.len() <= MOST_DIGITS
        && part.len() <= MOST_SCALE
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

/// Digits of a decimal, in all and behind the point.
const MOST_DIGITS: usize = 65;
const MOST_SCALE: usize = 30;
/// Errors of a session, whatever its statement says.
const ABOUT_SESSION: [u16; 9] = [1040, 1053, 1153, 1158, 1159, 1160, 1161, 1927, 4031];
/// Classes of conditions that values cause: cardinality, data, constraints, views, triggers of users.
const VALUE_STATES: [&str; 5] = ["21", "22", "23", "44", "45"];
/// The same for conditions that have no class of their own.
const ABOUT_VALUES: [u16; 13] = [
    1139, 1265, 1301, 1364, 1366, 1367, 1411, 1525, 1690, 3141, 3819, 4037, 4038,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_digit_of_a_number_is_lost_and_none_is_code() {
        for (number, is_number) in [
            ("0", true),
            ("-12.50", true),
            ("18446744073709551616", true),
            ("0.10000000000000000001", true),
            (&*"9".repeat(65), false),
            (&*"9".repeat(64), true),
            (&*format!("0.{}", "1".repeat(31)), false),
            ("1e5", false),
            ("1;DROP", false),
            ("", false),
            ("-", false),
            ("1.", false),
            (".5", false),
            ("+1", false),
        ] {
            assert_eq!(is_decimal(number), is_number, "{number}");
        }
    }

    #[test]
    fn a_failure_is_judged_by_what_it_is_about() {
        let classified = |code, state: &str| {
            classify(&ServerError {
                code,
                message: "words".into(),
                state: state.into(),
            })
        };
        assert!(matches!(classified(1062, "23000"), ErrorClass::Hopeless(_)));
        assert!(matches!(classified(1264, "22003"), ErrorClass::Hopeless(_)));
        assert!(matches!(classified(3819, "HY000"), ErrorClass::Hopeless(_)));
        assert!(matches!(classified(1644, "45000"), ErrorClass::Hopeless(_)));
        assert!(matches!(classified(1205, "HY000"), ErrorClass::Passing(_)));
        assert!(matches!(classified(1213, "40001"), ErrorClass::Batch));
        assert!(matches!(classified(1114, "HY000"), ErrorClass::Batch));
        assert!(matches!(classified(1146, "42S02"), ErrorClass::Unfit(_)));
    }
}
