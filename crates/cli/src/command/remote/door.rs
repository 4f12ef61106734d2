//! The worker that a verb asks, and what it is shown.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::num::NonZeroU64;

use semel_core::{Clock, Code, Error, ErrorKind, Result, Timestamp};
use semel_engine::system::SystemClock;
use semel_operate::action::{Action, ActionKind};
use semel_remote::{Access, Failure, Page, Read, Token, Worker};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Exit;
use crate::args::{Admin, Door as Named, Listing, Within};
use crate::command::operate::{
    alone, command_text, pipeline_option, tenant_option, usage, verb_of,
};
use crate::output::{self, Entry, List};
use crate::shell::{quoted, quoted_path};

/// A worker that is asked.
pub(super) struct Door {
    pub(super) worker: Worker,
    /// The options with which the operator named it, for commands to paste.
    typed: String,
    /// The options with which the operator named a pipeline and a tenant.
    narrowed: String,
    clock: SystemClock,
    /// True once the operator was told that the worker says more than this version knows.
    is_warned: Cell<bool>,
}

/// The members of a query.
pub(super) type Members<'a> = Vec<(&'a str, &'a str)>;

impl Door {
    /// Returns the worker that the arguments, else the environment, name; nothing if they name none, or if a store of
    /// this machine was typed.
    pub(super) fn of(named: Named<'_>) -> Result<Option<Self>> {
        let Admin {
            admin,
            token_file,
            ca,
        } = named.admin;
        let address = match admin {
            Some(address) => Some(address.clone()),
            None if named.is_here => None,
            None => variable("SEMEL_ADMIN")?,
        };
        let Some(address) = address else {
            if token_file.is_some() || ca.is_some() {
                return Err(usage("--token-file and --ca go with --admin URL"));
            }
            return Ok(None);
        };
        let token = match token_file {
            Some(file) => {
                let text = std::fs::read_to_string(file).map_err(|error| {
                    usage(format!(
                        "cannot read the token from {}: {error}",
                        file.display()
                    ))
                })?;
                Some(Token::new(&text)?)
            }
            None => variable("SEMEL_TOKEN")?
                .map(|text| Token::new(&text))
                .transpose()?,
        };
        let has_token = token.is_some();
        let ca_file = ca.clone();
        let worker = Worker::new(&address, Access { token, ca: ca_file })?;
        let place = worker.address();
        if has_token && !place.is_tls() && !place.is_loopback() {
            output::warning(format_args!(
                "the token goes to {place} unencrypted: whoever is on the way can read and use it"
            ));
        }
        let options = [
            admin
                .as_ref()
                .map(|_| ("--admin", quoted(&place.to_string()))),
            token_file
                .as_deref()
                .map(|file| ("--token-file", quoted_path(file))),
            ca.as_deref().map(|file| ("--ca", quoted_path(file))),
        ];
        let options = options.into_iter().flatten();
        let typed = options.fold(String::new(), |typed, (option, value)| {
            typed + " " + option + " " + &value
        });
        let pipeline = named.pipeline.map(pipeline_option);
        let tenant = named.tenant.map(tenant_option);
        Ok(Some(Self {
            worker,
            typed,
            narrowed: pipeline.unwrap_or_default() + &tenant.unwrap_or_default(),
            clock: SystemClock::new(),
            is_warned: Cell::new(false),
        }))
    }

    /// Runs a verb to its end.
    pub(super) fn drive(self, verb: impl AsyncFnOnce(&Self) -> Result<Exit>) -> Result<Exit> {
        alone(async || verb(&self).await)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Asks for a report; nothing after the operator was told that there is none.
    pub(super) async fn find<R: DeserializeOwned + Serialize>(
        &self,
        path: &str,
        members: &[(&str, &str)],
    ) -> Result<Option<R>> {
        match self.worker.get(path, members).await {
            Ok(Read { report, unknown }) => {
                self.warn(unknown);
                Ok(Some(report))
            }
            Err(Failure::Refused(problem)) if is_absence(problem.code) => {
                output::note(format_args!("{} [{}]", problem.detail, problem.code));
                Ok(None)
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Passes the entries of a list to `visit`, page by page, until it breaks off.
    pub(super) async fn for_each<E: DeserializeOwned + Serialize>(
        &self,
        path: &str,
        members: &[(&str, &str)],
        limit: Option<NonZeroU64>,
        mut visit: impl FnMut(Vec<E>) -> Result<output::Go>,
    ) -> Result<()> {
        let limit = limit.map_or(MOST_ITEMS, |it| it.get().min(MOST_ITEMS));
        let limit = limit.to_string();
        let members: Members<'_> = members
            .iter()
            .copied()
            .chain([("limit", &*limit)])
            .collect();
        let (mut cursor, mut seen) = (None, BTreeSet::new());
        loop {
            let page = self.worker.page(path, &members, cursor.as_deref()).await;
            let Page {
                items,
                next,
                unknown,
            } = page.map_err(Error::from)?;
            self.warn(unknown);
            if visit(items)?.is_break() || next.is_none() {
                return Ok(());
            }
            if !seen.insert(next.clone()) {
                let message = "the worker sends the same pages of a list again and again";
                let error = Error::new(ErrorKind::Unavailable, message);
                return Err(error.with_code(Code::WorkerIncompatible).not_applied());
            }
            cursor = next;
        }
    }

    /// Prints a list.
    pub(super) async fn print_list<E: Entry + DeserializeOwned>(
        &self,
        path: &str,
        members: &[(&str, &str)],
        listing: &Listing,
    ) -> Result<Exit> {
        let mut list = List::new(listing);
        self.for_each(path, members, listing.limit, |items: Vec<E>| {
            for item in &items {
                if list.push(item)?.is_break() {
                    return Ok(output::Go::Break(()));
                }
            }
            list.pause()
        })
        .await?;
        list.end()?;
        Ok(Exit::Done)
    }

    /// Returns the command that carries out an action.
    pub(super) fn command_for(&self, action: &Action) -> String {
        let operation = &action.target.0;
        let verb = verb_of(action.kind);
        let scope = &operation.scope;
        if action.kind == ActionKind::ListQuarantine {
            return format!("semel {verb}{}{}", self.typed, self.narrowed);
        }
        let options = self.typed.clone() + &pipeline_option(scope.operation());
        let tenant = Some(scope.tenant()).filter(|it| !it.is_empty());
        let options = options + &tenant.map(tenant_option).unwrap_or_default();
        command_text(verb, &operation.key, &options)
    }

    /// Tells the operator once that the worker says more than this version knows.
    fn warn(&self, unknown: Option<String>) {
        if let Some(member) = unknown
            && !self.is_warned.replace(true)
        {
            output::warning(format_args!(
                "the worker at {} is of another version: its member {member} is not known here, and left out [{}]",
                self.worker.address(),
                Code::WorkerIncompatible
            ));
        }
    }
}

/// The members of a query that `--pipeline` and `--tenant` are.
pub(super) fn place(within: &Within) -> Members<'_> {
    let pipeline = within.pipeline.as_deref().map(|it| ("pipeline", it));
    let tenant = within.tenant.as_deref().map(|it| ("tenant", it));
    pipeline.into_iter().chain(tenant).collect()
}

/// Tells whether a code says that there is nothing of the kind that was asked for.
pub(super) const fn is_absence(code: Code) -> bool {
    matches!(
        code,
        Code::KeyUnknown | Code::MessageUnknown | Code::RunUnknown
    )
}

/// Reads a variable of the environment; an empty one is none.
fn variable(name: &str) -> Result<Option<String>> {
    let text = std::env::var_os(name).map(OsString::into_string);
    let text = text
        .transpose()
        .map_err(|_| usage(format!("{name} is no text")))?;
    Ok(text.filter(|it| !it.is_empty()))
}

/// The most entries of a page.
const MOST_ITEMS: u64 = 1_000;
