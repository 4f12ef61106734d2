//! The ground on which every operating verb stands: the store, the scope, and who orders a change for which
//! reason.
//!
//! A verb that reads begins with [`look`], one that changes something with [`change`]. Both open the store that
//! `--store` or the configuration names, and never create one. Printing is not done here: that is
//! [`crate::output`].

mod lookup;
mod named;
mod opening;
mod selection;
mod streamed;

pub(crate) use lookup::Found;
pub(in crate::command) use opening::tell_if_forward;
pub(crate) use selection::{pipeline_option, tenant_option};

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use semel_backends::store;
use semel_config::{Accepted, PipelineSettings, StoreUrl, TelemetrySettings};
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{
    AnyStore, Clock, Code, Error, ErrorKind, Key, Note, Operation, Result, Scope, Timestamp,
};
use semel_engine::system::SystemClock;
use semel_operate::action::{Action, ActionKind, Advice};
use semel_operate::keys::{Arrival, Beside, Declared};
use semel_operate::order;
use semel_operate::paging::{Item, for_each_page};
use semel_worker::run::Stores;
use semel_worker::settings::EffectSettings;

use self::named::{Named, place};
use self::opening::{Purpose, drive, runtime, with};
use crate::Exit;
use crate::args::value::key;
use crate::args::{Audit, Common, Confirm, Listing, Within};
use crate::output::{Entry, Go, List, Plan, key_text};
use crate::shell::quoted;

/// Everything that an operating verb works on.
pub(crate) struct Ground {
    /// The place of the store; printed without secrets.
    pub(crate) url: StoreUrl,
    /// The weaknesses of the store that the configuration accepts.
    pub(crate) accepted: Accepted,
    /// The store.
    pub(crate) store: AnyStore,
    /// The same store, for export and import; none in a verb that only looks.
    pub(crate) transfer: Option<AnyTransferStore>,
    /// The same store, to run pipelines on; none unless the verb runs some.
    pub(crate) stores: Option<Stores>,
    /// The time that running effects have once a stop is asked for.
    pub(crate) patience: Duration,
    /// The collector of traces, and which traces it gets.
    pub(crate) telemetry: TelemetrySettings,
    /// The processes that may work beside a verb that reads the files of a store.
    pub(crate) beside: Option<Beside>,
    /// The process id of the worker that has the store open and carries out the orders.
    pub(crate) worker: Option<u32>,
    /// The pipelines of the configuration; none where there is no configuration.
    pub(crate) pipelines: Vec<PipelineSettings>,
    /// True if the configuration serves claims or an API, whose operations no pipeline names.
    serves_clients: bool,
    /// True if clients claim keys of any operation.
    takes_claims: bool,
    /// The names under which the routes of a gateway keep their keys.
    routes: Vec<Box<str>>,
    /// The pipeline that `--pipeline` names.
    named: Option<Box<str>>,
    /// The tenant that `--tenant` names.
    tenant: Option<Box<str>>,
    /// The options with which the operator named the store, for commands to paste.
    typed: String,
    clock: Arc<SystemClock>,
}

/// Runs a verb that reads, beside a worker if one uses the store.
pub(crate) fn look(
    within: &Within,
    verb: impl AsyncFnOnce(&Ground) -> Result<Exit>,
) -> Result<Exit> {
    with(within, within.tenant.as_deref(), Purpose::Read, verb)
}

/// Runs a verb that changes something.
pub(crate) fn change(
    within: &Within,
    verb: impl AsyncFnOnce(&Ground) -> Result<Exit>,
) -> Result<Exit> {
    with(within, within.tenant.as_deref(), Purpose::Change, verb)
}

/// Runs a verb that plans a change and carries it out with `--yes`. The plan alone opens nothing for writing,
/// so that it can be made beside a worker.
pub(crate) fn plan(
    within: &Within,
    confirm: Confirm,
    verb: impl AsyncFnOnce(&Ground) -> Result<Exit>,
) -> Result<Exit> {
    if confirm.yes {
        change(within, verb)
    } else {
        look(within, verb)
    }
}

/// Runs a verb that exports a store, which no worker does for it.
pub(crate) fn export(
    common: &Common,
    verb: impl AsyncFnOnce(&Ground) -> Result<Exit>,
) -> Result<Exit> {
    with(common, None, Purpose::Export, verb)
}

/// Runs a verb that fills a store, and creates the store if it does not exist.
pub(crate) fn fill(
    common: &Common,
    verb: impl AsyncFnOnce(&Ground) -> Result<Exit>,
) -> Result<Exit> {
    with(common, None, Purpose::Fill, verb)
}

/// Runs a verb that runs effects.
pub(crate) fn run(
    within: &Within,
    verb: impl AsyncFnOnce(&Ground) -> Result<Exit>,
) -> Result<Exit> {
    with(within, within.tenant.as_deref(), Purpose::Run, verb)
}

/// Runs a verb that only needs the store's place, and opens nothing.
pub(crate) fn at(
    common: &Common,
    verb: impl AsyncFnOnce(&StoreUrl) -> Result<Exit>,
) -> Result<Exit> {
    let Some(Named { url, .. }) = place(common)? else {
        return Ok(Exit::Usage);
    };
    let done = drive(&runtime()?, Box::pin(verb(&url)));
    done.map_err(|error| store::at_store(&url, error))
}

/// Runs a verb that is about no store.
pub(crate) fn alone(verb: impl AsyncFnOnce() -> Result<Exit>) -> Result<Exit> {
    drive(&runtime()?, Box::pin(verb()))
}

/// Returns the url of the store that the arguments name, and whether the store exists; nothing after faults
/// were reported.
pub(crate) fn is_there(common: &Common) -> Result<Option<(StoreUrl, bool)>> {
    let Some(Named { url, .. }) = place(common)? else {
        return Ok(None);
    };
    let is_there = runtime()?.block_on(store::exists(&url));
    let is_there = is_there.map_err(|error| store::at_store(&url, error))?;
    Ok(Some((url, is_there)))
}

impl Ground {
    /// The part of the configuration that says where keys come from.
    fn declared(&self) -> Declared<'_> {
        Declared {
            pipelines: &self.pipelines,
            serves_clients: self.serves_clients,
            routes: &self.routes,
        }
    }

    /// Returns the settings of the pipeline of `scope`, if the configuration has it.
    pub(crate) fn pipeline_of(&self, scope: &Scope) -> Option<&PipelineSettings> {
        self.declared().pipeline_of(scope)
    }

    /// Returns the way in which keys of `scope` come.
    pub(crate) fn arrival_of(&self, scope: &Scope) -> Arrival {
        self.declared().arrival_of(scope)
    }

    /// Returns whether the configuration, if there is one, says nothing of what brings keys.
    pub(crate) const fn has_neither_pipelines_nor_claims(&self) -> bool {
        self.pipelines.is_empty() && !self.serves_clients
    }

    /// Returns a command about the key of `operation`, as an operator would type it to come back to this store
    /// and pipeline: `semel keys show pay-1 --pipeline payments`.
    pub(crate) fn command(&self, verb: &str, operation: &Operation) -> String {
        let options = self.typed.clone() + &self.place_options(&operation.scope);
        command_text(verb, &operation.key, &options)
    }

    /// Returns the command that carries out an action.
    pub(crate) fn command_for(&self, action: &Action) -> String {
        match action.kind {
            ActionKind::ListQuarantine => self.command_of_all(verb_of(action.kind)),
            kind => self.command(verb_of(kind), &action.target.0),
        }
    }

    /// Returns advice on one line, with the command at its end.
    pub(crate) fn line(&self, advice: Advice) -> String {
        let Advice { text, action } = advice;
        match action {
            Some(action) => format!("{text}: {}", self.command_for(&action)),
            None => text,
        }
    }

    /// Returns the same for a command that is not about a single key.
    pub(crate) fn command_of_all(&self, verb: &str) -> String {
        format!("semel {verb}{}{}", self.typed, self.named_options())
    }

    /// Says under a plan that is not carried out what would stand in the way of carrying it out.
    pub(crate) fn remark_on_use(&self, plan: &mut Plan) {
        match self.beside {
            Some(Beside {
                process: Some(process),
                takes_orders: true,
            }) => plan.remark(format_args!(
                "process {process} has the store open, and carries it out when you say --yes"
            )),
            Some(Beside {
                process: Some(process),
                takes_orders: false,
            }) => plan.remark(format_args!(
                "process {process} has the store open: stop it before you say --yes"
            )),
            Some(Beside { process: None, .. }) | None => {}
        }
    }

    /// Refuses to run effects that only the worker that has the store open can run.
    ///
    /// # Errors   `target-in-use`: it writes their file
    pub(crate) fn refuse_its_file(&self, settings: &PipelineSettings) -> Result<()> {
        let (Some(process), EffectSettings::File { path }) = (self.worker, &settings.effect) else {
            return Ok(());
        };
        let message = format!(
            "{}: process {process} has the store open, and only it may write {}: stop it, say this again, and start it",
            settings.pipeline.name,
            path.display()
        );
        Err(Error::new(ErrorKind::Unavailable, message)
            .with_code(Code::TargetInUse)
            .not_applied())
    }

    /// Returns the time on the clock of the store as far as it is known: a store of this machine uses this
    /// machine's clock, and a server's clock is assumed to agree with it.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The clock of [`Ground::now`].
    pub(crate) fn clock(&self) -> Arc<SystemClock> {
        Arc::clone(&self.clock)
    }
}

/// Returns the verb that carries out actions of a kind.
pub(crate) const fn verb_of(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::Explain => "keys explain",
        ActionKind::Show => "keys show",
        ActionKind::ShowOutcome => "keys show --outcome",
        ActionKind::Release => "keys release",
        ActionKind::Forget => "keys forget",
        ActionKind::Hold => "keys hold",
        ActionKind::LetGo => "keys hold --off",
        ActionKind::Resolve => "in-doubt resolve",
        ActionKind::ResolveApplied => "in-doubt resolve --applied",
        ActionKind::ResolveNotApplied => "in-doubt resolve --not-applied",
        ActionKind::Abandon => "in-doubt resolve --abandon --reason WHY",
        ActionKind::Retry => "in-doubt retry",
        ActionKind::ShowDoubt => "in-doubt show",
        ActionKind::Replay => "dead-letters replay",
        ActionKind::ShowDeadLetter => "dead-letters show",
        ActionKind::DropDeadLetter => "dead-letters drop",
        ActionKind::ListQuarantine => "quarantine list",
    }
}

/// Returns a command about a key, with options that each begin with a space.
pub(crate) fn command_text(verb: &str, key: &Key, options: &str) -> String {
    let key = quoted(&key_text(key.as_str()));
    if key.trim_start_matches('\'').starts_with('-') {
        return format!("semel {verb}{options} -- {key}");
    }
    format!("semel {verb} {key}{options}")
}

/// Reads the keys of a file, one per line as they are typed; `-` is standard input. Empty lines are no keys and
/// are skipped.
///
/// # Errors   `InvalidInput`: the file cannot be read, or a line is no key
pub(crate) fn keys_from(file: &Path) -> Result<Vec<Key>> {
    let mut text = String::new();
    let read = if file.as_os_str() == OsStr::new("-") {
        std::io::stdin().lock().read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    let name = file.display();
    read.map_err(|error| usage(format!("cannot read keys from {name}: {error}")))?;
    let lines = text.lines().enumerate();
    let keys = lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(at, line)| key(line).map_err(|why| usage(format!("{name}:{}: {why}", at + 1))));
    keys.collect()
}

/// The note for the audit trail: who orders a change, and why.
pub(crate) fn note_of(audit: &Audit) -> Note {
    order::note(&audit.by(), audit.reason.as_deref().unwrap_or_default())
}

/// Prints a list page by page, in constant memory: the entries that `entry` makes of the items of the store.
///
/// # Cost   holds one page
pub(crate) async fn print_list<T: Item, E: Entry>(
    store: &AnyStore,
    listing: &Listing,
    query: ListQuery,
    mut entry: impl FnMut(T) -> Option<E>,
) -> Result<Exit> {
    let mut list = List::new(listing);
    for_each_page(store, query, |items: Vec<T>| {
        for item in items {
            if let Some(entry) = entry(item)
                && list.push(&entry)?.is_break()
            {
                return Ok(Go::Break(()));
            }
        }
        list.pause()
    })
    .await?;
    list.end()?;
    Ok(Exit::Done)
}

/// Makes the error of a mistake on the command line, exit code 2.
pub(crate) fn usage(message: impl Into<Box<str>>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}
