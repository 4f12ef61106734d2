//! Writes to standard error: text for people, or an object per line for a log.
//!
//! A failed write is ignored: nobody may be listening any more, and that is no reason to end.

use std::fmt::{Display, Write as _};
use std::io::Write;
use std::sync::OnceLock;

use semel_core::{Clock, Code, Error, TraceContext};
use semel_engine::system::SystemClock;
use semel_operate::value::Time;
use serde::Serialize;

use super::screen::colours_stderr;
use super::text;
use super::text_style::TextStyle;
use crate::LogFormat;

/// The importance of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Good to know.
    Info,
    /// Wants the operator's attention.
    Warning,
    /// Something did not work.
    Error,
}

/// Takes `--log` for the whole process; until then every message is text.
pub fn set_log(format: LogFormat) {
    // The first call decides.
    let _ = FORMAT.set(format);
}

/// Tells whether standard error is for people: if so, there may be bars, too.
pub fn is_told_in_text() -> bool {
    format() == LogFormat::Text
}

/// Prints one line.
pub fn note(text: impl Display) {
    say(Level::Info, None, &text.to_string(), &About::default());
}

/// Prints something that wants attention.
pub fn warning(text: impl Display) {
    say(Level::Warning, None, &text.to_string(), &About::default());
}

/// Prints something that wants attention about work in this span, which a log names.
pub fn warning_in(span: TraceContext, text: impl Display) {
    let about = About {
        span: Some(span),
        ..About::default()
    };
    say(Level::Warning, None, &text.to_string(), &about);
}

/// Prints something that is wrong, for example a fault of the configuration.
pub fn error(text: impl Display) {
    say(Level::Error, None, &text.to_string(), &About::default());
}

/// Prints each fault of a configuration.
pub fn errors(faults: impl IntoIterator<Item = impl Display>) {
    faults.into_iter().for_each(error);
}

/// Prints a failure with its chain of causes.
pub fn failure(error: &Error) {
    let about = About {
        causes: causes(error),
        ..About::default()
    };
    say(Level::Error, Some(error.code()), &error.to_string(), &about);
}

/// The causes behind a failure, each once.
fn causes(error: &Error) -> Vec<String> {
    let mut causes = Vec::new();
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let text = error.to_string();
        // A layer that only passes on the error below it adds nothing.
        if !told.contains(&text) && text != DRIVER {
            causes.push(text.clone());
        }
        told = text;
        cause = error.source();
    }
    causes
}

/// The whole text of the PostgreSQL driver between an error and its cause.
const DRIVER: &str = "db error";

/// Writes an event as one object, after its time and level; for [`LogFormat::Json`].
pub fn log(level: Level, event: &impl Serialize) {
    #[derive(Serialize)]
    struct Line<'a, E> {
        time: Time,
        level: Level,
        #[serde(flatten)]
        event: &'a E,
    }
    let line = Line {
        time: Time(SystemClock::new().now()),
        level,
        event,
    };
    if let Ok(mut line) = serde_json::to_vec(&line) {
        line.push(b'\n');
        write(&line);
    }
}

/// The rest of what a message is about.
#[derive(Default)]
struct About {
    causes: Vec<String>,
    span: Option<TraceContext>,
}

fn say(level: Level, code: Option<Code>, message: &str, about: &About) {
    let About { causes, span } = about;
    match format() {
        LogFormat::Off if level != Level::Error => {}
        LogFormat::Text | LogFormat::Off => {
            let mut lines = String::new();
            let (label, style) = match level {
                Level::Info => ("", TextStyle::Plain),
                Level::Warning => ("warning: ", TextStyle::Attention),
                Level::Error => ("error: ", TextStyle::Bad),
            };
            style.paint(label, colours_stderr(), &mut lines);
            // A message may quote a file or a server.
            lines.push_str(&text::escaped_but(message, |c| c == '\n'));
            if let Some(code) = code {
                // Writing to a string cannot fail.
                let _ = write!(lines, " [{code}]");
            }
            lines.push('\n');
            for cause in causes {
                let _ = writeln!(lines, "  caused by: {}", text::escaped(cause));
            }
            write(lines.as_bytes());
        }
        LogFormat::Json => {
            #[derive(Serialize)]
            struct Said<'a> {
                #[serde(skip_serializing_if = "Option::is_none")]
                code: Option<&'static str>,
                #[serde(skip_serializing_if = "Option::is_none")]
                trace_id: Option<String>,
                #[serde(skip_serializing_if = "Option::is_none")]
                span_id: Option<String>,
                message: &'a str,
                #[serde(skip_serializing_if = "<[String]>::is_empty")]
                causes: &'a [String],
            }
            let code = code.map(Code::as_str);
            log(
                level,
                &Said {
                    code,
                    trace_id: span.map(|it| it.trace_id.to_string()),
                    span_id: span.map(|it| it.span_id.to_string()),
                    message,
                    causes,
                },
            );
        }
    }
}

/// Makes one write, so that lines of several threads do not mix.
fn write(lines: &[u8]) {
    let _ = std::io::stderr().lock().write_all(lines);
}

fn format() -> LogFormat {
    FORMAT.get().copied().unwrap_or(LogFormat::Text)
}

static FORMAT: OnceLock<LogFormat> = OnceLock::new();

#[cfg(test)]
mod tests {
    use semel_core::ErrorKind;

    use super::*;

    #[test]
    fn a_cause_that_says_nothing_of_its_own_is_left_out() {
        let refused = || Error::new(ErrorKind::Unavailable, "password authentication failed");
        let driver = Error::new(ErrorKind::Unavailable, DRIVER).with_source(refused());
        let again = Error::new(ErrorKind::Unavailable, "cannot log in").with_source(driver);
        let error =
            Error::new(ErrorKind::Unavailable, "the store: cannot log in").with_source(again);
        assert_eq!(causes(&error), ["password authentication failed"]);
    }
}
