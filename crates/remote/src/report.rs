//! Reads a report, and tells what of it this version does not know.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A report that was understood.
#[derive(Clone, Debug)]
pub struct Read<R> {
    /// The report.
    pub report: R,
    /// A member that the worker sent and this version does not know, as a pointer. It is not printed.
    pub unknown: Option<String>,
}

impl<R: DeserializeOwned + Serialize> Read<R> {
    /// Reads a report of JSON.
    ///
    /// # Errors
    ///
    /// The reason why it is none of this version
    pub fn of(sent: &Value) -> Result<Self, String> {
        let report = R::deserialize(sent).map_err(|why| why.to_string())?;
        let printed = serde_json::to_value(&report).map_err(|why| why.to_string())?;
        Ok(Self {
            report,
            unknown: unknown(sent, &printed, ""),
        })
    }
}

/// Reads an object that has the number of its format; `what` names objects of its kind.
///
/// # Errors
///
/// The reason why it is none of this version
pub(crate) fn of_format<T: DeserializeOwned>(
    sent: Value,
    known: u64,
    what: &str,
) -> Result<T, String> {
    match sent.get("semel").map(Value::as_u64) {
        Some(Some(format)) if format == known => T::deserialize(sent).map_err(|it| it.to_string()),
        Some(Some(format)) => Err(format!(
            "its {what} have the format {format}, and this version knows {known}"
        )),
        Some(None) | None => Err(format!("its {what} have no number of a format")),
    }
}

/// Finds a member of `sent` that `printed` lacks.
fn unknown(sent: &Value, printed: &Value, at: &str) -> Option<String> {
    match (sent, printed) {
        (Value::Object(sent), Value::Object(printed)) => sent.iter().find_map(|(name, sent)| {
            let at = format!("{at}/{name}");
            match printed.get(name) {
                Some(printed) => unknown(sent, printed, &at),
                None => Some(at),
            }
        }),
        (Value::Array(sent), Value::Array(printed)) => {
            let mut pairs = sent.iter().zip(printed).enumerate();
            pairs.find_map(|(number, (sent, printed))| {
                unknown(sent, printed, &format!("{at}/{number}"))
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct Report {
        count: u32,
        parts: Vec<Part>,
    }

    #[derive(Debug, Serialize, Deserialize)]
    struct Part {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    }

    #[test]
    fn an_object_of_another_format_is_none_of_this_version() {
        let read = |sent: Value| of_format::<Part>(sent, 1, "parts").map(|it| it.name);
        let part = json!({"semel": 1, "name": "a"});
        assert_eq!(read(part).as_deref(), Ok("a"));
        // The number is looked at first: the rest may be anything.
        for (sent, why) in [
            (json!({"semel": 2, "title": "a"}), "have the format 2"),
            (json!({"semel": "1", "name": "a"}), "have no number"),
            (json!({"name": "a"}), "have no number"),
            (json!([]), "have no number"),
            (json!({"semel": 1}), "name"),
        ] {
            let refused = read(sent).expect_err("none of this version");
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_member_that_is_not_known_is_named_and_one_that_is_missing_refused() {
        let read = |sent: Value| Read::<Report>::of(&sent);
        let known = json!({"count": 1, "parts": [{"name": "a"}, {"name": "b", "detail": "c"}]});
        assert_eq!(read(known).expect("a report").unknown, None);
        let more = json!({"count": 1, "parts": [{"name": "a"}, {"name": "b", "rank": 1}]});
        let more = read(more).expect("a report");
        assert_eq!(more.unknown.as_deref(), Some("/parts/1/rank"));
        assert_eq!((more.report.count, more.report.parts.len()), (1, 2));
        let why = read(json!({"parts": []})).expect_err("a member is missing");
        assert!(why.contains("count"), "{why}");
    }
}
