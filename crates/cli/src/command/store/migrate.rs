//! `semel store migrate`.

use std::env::args_os;
use std::ops::ControlFlow;
use std::sync::Arc;

use semel_backends::producers;
use semel_backends::store::{self, Formats};
use semel_config::StoreUrl;
use semel_core::Result;
use semel_engine::system::SystemClock;
use serde::Serialize;

use crate::Exit;
use crate::args::store::Migrate;
use crate::command::operate;
use crate::output::{Answer, Answers, Block, Plan};

/// Brings the store to the format of this version, and creates it on a server that has none.
pub(super) fn migrate(arguments: &Migrate) -> Result<Exit> {
    operate::at(&arguments.whole.place.common(), async |url| {
        let before = store::formats(url).await?;
        let tables_before = producers::has_tables(url).await.unwrap_or(None);
        // A store of this machine is brought forward by whatever writes to it, without asking.
        if let Some(plan) = plan(url, before, tables_before)
            && let ControlFlow::Break(exit) = plan.confirmed(arguments.confirm, args_os())
        {
            return Ok(exit);
        }
        let stored = store::migrate(url, Arc::new(SystemClock::new())).await?;
        let tables_after = producers::has_tables(url).await.unwrap_or(None);
        let done = Done {
            producers: Tables::of(tables_before, tables_after),
            ..Done::of(before, Formats { stored, ..before })
        };
        let _ = Answers::new(arguments.whole.format).print(&done)?;
        Ok(Exit::Done)
    })
}

/// Plans the changes on a server, or in a file that others made; nothing if there are none.
fn plan(url: &StoreUrl, before: Formats, tables_before: Option<bool>) -> Option<Plan> {
    let Formats { stored, newest } = before;
    let is_new_in_file = stored.is_none() && matches!(url, StoreUrl::Sqlite(path) if path.exists());
    if !url.is_server() && !is_new_in_file {
        return None;
    }
    match stored {
        None => {
            let mut plan = Plan::new("make", "store", "stores");
            plan.add(format_args!("{url}, with format {newest}"));
            if tables_before == Some(false) {
                plan.remark("beside it: tables of producers, if its user may make them");
            }
            Some(plan)
        }
        Some(stored) if stored < newest => {
            let mut plan = Plan::new("bring forward", "store", "stores");
            plan.add(format_args!(
                "{url}, from format {stored} to format {newest}"
            ));
            plan.remark(format_args!(
                "versions of semel that write format {stored} cannot use it any more: stop their workers"
            ));
            Some(plan)
        }
        Some(stored) if stored == newest && tables_before == Some(false) => {
            let mut plan = Plan::new("make", "set of tables", "sets of tables");
            plan.add(format_args!(
                "tables of producers beside the store {url}, if its user may make them"
            ));
            Some(plan)
        }
        Some(_) => None,
    }
}

/// The tables of producers, which are beside those of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Tables {
    /// They were there.
    There,
    /// They are made.
    Made,
    /// They are not there: the user may not make them, or others have tables of their names.
    Missing,
}

impl Tables {
    /// Compares what was there with what is there now; nothing of a store without tables, or whose user may not look.
    fn of(before: Option<bool>, after: Option<bool>) -> Option<Self> {
        Some(match (before, after?) {
            (Some(false), true) => Self::Made,
            // Whoever could not look before does not know that they are new.
            (_, true) => Self::There,
            (_, false) => Self::Missing,
        })
    }
}

/// The result.
#[derive(Debug, Serialize)]
struct Done {
    from: Option<i64>,
    to: Option<i64>,
    newest: i64,
    migrated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    producers: Option<Tables>,
}

impl Done {
    fn of(before: Formats, after: Formats) -> Self {
        Self {
            from: before.stored,
            to: after.stored,
            newest: after.newest,
            migrated: before.stored != after.stored,
            producers: None,
        }
    }
}

impl Answer for Done {
    fn describe(&self, block: &mut Block) {
        let format = |format: Option<i64>| format.map_or("none".to_owned(), |it| it.to_string());
        let to = format(self.to);
        block.prose(&match self.from {
            _ if !self.migrated && self.producers == Some(Tables::Made) => {
                format!("the store has format {to}")
            }
            _ if !self.migrated => format!("nothing to do: the store has format {to}"),
            None => format!("made, with format {to}"),
            Some(from) => format!(
                "brought forward from format {from} to format {to}; versions of semel that write \
                 format {from} cannot open it any more"
            ),
        });
        let beside = match self.producers {
            Some(Tables::Made) => "made tables of producers beside it",
            Some(Tables::Missing) => {
                "the tables of producers are missing: the user may not make them, or others have tables of their names"
            }
            Some(Tables::There) | None => return,
        };
        block.prose(beside);
    }
}
