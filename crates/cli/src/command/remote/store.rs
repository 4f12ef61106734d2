//! `semel store` and `semel config show`, asked of a worker.

use std::fmt::Write as _;

use semel_core::{Error, ErrorKind, Key, Result};
use semel_operate::store::{AuditLine, Statistics, SweepResult};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::consent::{Order, Ordered, Unmet, carried};
use super::door::{Door, place};
use super::export::export;
use super::{refused, through};
use crate::Exit;
use crate::args::store::{Store, Sweep, Trail, Whole};
use crate::args::{ConfigShow, Language};
use crate::command::operate::usage;
use crate::output::{self, Answers, Plan};

pub(super) fn run(verb: &Store) -> Option<Result<Exit>> {
    match verb {
        Store::Stats(arguments) => through(arguments.place.door(), async |door| {
            stats(door, arguments).await
        }),
        Store::Audit(arguments) => through(arguments.common.door(), async |door| {
            audit(door, arguments).await
        }),
        Store::Sweep(arguments) => through(arguments.whole.place.door(), async |door| {
            sweep(door, arguments).await
        }),
        Store::Migrate(arguments) => refused(
            arguments.whole.place.door(),
            "store migrate",
            "it is for a store that no worker has open",
        ),
        Store::Export(arguments) => {
            through(arguments.door(), async |door| export(door, arguments).await)
        }
        // It has no --admin.
        Store::Import(_) => None,
    }
}

async fn stats(door: &Door, arguments: &Whole) -> Result<Exit> {
    let Some(statistics) = door.find::<Statistics<'_>>("/v1/store", &[]).await? else {
        return Ok(Exit::No);
    };
    let _ = Answers::new(arguments.format).print(&statistics)?;
    Ok(Exit::Done)
}

async fn audit(door: &Door, arguments: &Trail) -> Result<Exit> {
    let since = arguments.since.map(semel_core::units::duration_text);
    let mut members = place(&arguments.common);
    members.extend(since.as_deref().map(|it| ("since", it)));
    members.extend(
        arguments
            .key
            .as_ref()
            .map(Key::as_str)
            .map(|it| ("key", it)),
    );
    let listing = &arguments.listing;
    door.print_list::<AuditLine>("/v1/audit", &members, listing)
        .await
}

/// The counts of a sweep that is planned or done.
#[derive(Deserialize)]
struct Swept {
    /// About as many; none if the store cannot tell.
    removed: Option<u64>,
    doubted: Option<u64>,
    abandoned: Option<u64>,
}

async fn sweep(door: &Door, arguments: &Sweep) -> Result<Exit> {
    let order = Order {
        action: "store/sweep",
        body: Map::<String, Value>::new(),
        audit: &arguments.audit,
        confirm: arguments.confirm,
        unmet: Unmet::Left,
    };
    let fill = |plan: &mut Plan, changes: &[Swept]| {
        for it in changes {
            plan.add(format_args!(
                "that of the worker at {}",
                door.worker.address()
            ));
            plan.remark(match it.removed {
                Some(count) => {
                    format!("records that are past their window, and are removed: about {count}")
                }
                None => "the store cannot tell how many records are past their window".to_owned(),
            });
        }
    };
    let plan = Plan::new("sweep", "store", "stores");
    match Ordered::of(door, &order, plan, fill).await? {
        Ordered::Over(exit, _) => Ok(exit),
        Ordered::Done(done, is_whole) => {
            let mut result = SweepResult::default();
            let name = |_: &Swept| "the store".to_owned();
            let exit = carried(done, is_whole, name, |it| {
                result = SweepResult {
                    removed: it.removed.unwrap_or_default(),
                    doubted: it.doubted.unwrap_or_default(),
                    abandoned: it.abandoned.unwrap_or_default(),
                };
                Ok(())
            })?;
            if exit == Exit::Done || result != SweepResult::default() {
                let _ = Answers::new(arguments.whole.format).print(&result)?;
            }
            Ok(exit)
        }
    }
}

/// Prints the settings of the worker.
pub(super) fn show_config(arguments: &ConfigShow) -> Option<Result<Exit>> {
    through(arguments.door(), async |door| {
        if arguments.origin || arguments.output != Language::Json {
            let message = "a worker tells its settings as one object, without their origins: say --output json";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if arguments.named.common.pipeline.is_some() {
            return Err(usage(
                "a worker tells all its settings: leave out --pipeline",
            ));
        }
        let text = door.worker.text("/v1/config", &[]).await?;
        let text = settings(&text).map_err(|why| door.worker.strange("/v1/config", why))?;
        output::data(text).map_err(output::cannot_print)?;
        Ok(Exit::Done)
    })
}

/// Reads settings as an object, which keeps the order of its members. Nothing of it steers a terminal.
fn settings(text: &[u8]) -> std::result::Result<String, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "it is no text")?;
    let is_object = serde_json::from_str::<Map<String, Value>>(text).is_ok();
    if !is_object {
        return Err("it is no object");
    }
    // Such a character stands within a string: between the parts of JSON there are none but white space.
    let escaped = text.chars().fold(String::new(), |mut escaped, it| {
        if it.is_control() && !it.is_ascii_whitespace() {
            let _ = write!(escaped, "\\u{:04x}", u32::from(it));
        } else {
            escaped.push(it);
        }
        escaped
    });
    Ok(escaped)
}

#[cfg(test)]
mod tests {
    use super::settings;

    #[test]
    fn settings_are_an_object_in_its_order_that_steers_no_terminal() {
        let text = "{\n  \"b\": 1,\n  \"a\": \"x\u{9b}y\u{7f}\"\n}";
        let told = settings(text.as_bytes());
        let expected = "{\n  \"b\": 1,\n  \"a\": \"x\\u009by\\u007f\"\n}";
        assert_eq!(told.as_deref(), Ok(expected));
        for other in ["\u{1b}[2J", "[1]", "{\"a\":\"\u{1b}[2J\"}", "<html>", ""] {
            assert!(settings(other.as_bytes()).is_err(), "{other:?}");
        }
    }
}
