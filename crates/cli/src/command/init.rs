//! `semel init`: writes a configuration to begin with and a sample with duplicates, and names the commands to
//! type next.

mod broker;
mod config;
mod files;
mod gateway;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use semel_core::{Clock, Code, Error, ErrorKind, Result};
use semel_engine::system::SystemClock;
use serde::Serialize;

use crate::Exit;
use crate::args::{EffectKind, Init, Level, SourceKind, StoreKind};
use crate::configuration::store_url;
use crate::output::{self, Answer, Answers, Block};
use crate::shell::quoted_path;
use files::File;

/// Writes all files or none, and never over an existing one.
pub(crate) fn init(arguments: &Init) -> Result<Exit> {
    if arguments.gateway {
        return gateway(arguments);
    }
    let choice = Choice::of(arguments)?;
    let files = files::of(choice, SystemClock::new().now());
    write(&arguments.dir, &files)?;
    let written = Written {
        dir: arguments.dir.display().to_string(),
        files: files.iter().map(|file| file.name).collect(),
        next: next(&arguments.dir, choice),
    };
    let _ = Answers::new(arguments.format).print(&written)?;
    for feature in broker::missing(choice.source, choice.effect) {
        output::warning(format!(
            "{feature} is not built into this program; build it with --features {feature}"
        ));
    }
    Ok(Exit::Done)
}

/// The same for a gateway.
fn gateway(arguments: &Init) -> Result<Exit> {
    let store = arguments.store.unwrap_or(StoreKind::Embedded);
    store_url(config::url(store)).map_err(|why| refused(&why.to_string()))?;
    let files = gateway::files(store);
    write(&arguments.dir, &files)?;
    let mut commands: Vec<_> = into(&arguments.dir).into_iter().collect();
    commands.extend(gateway::NEXT.map(str::to_owned));
    let written = Written {
        dir: arguments.dir.display().to_string(),
        files: files.iter().map(|file| file.name).collect(),
        next: commands,
    };
    let _ = Answers::new(arguments.format).print(&written)?;
    Ok(Exit::Done)
}

/// The choices of the person.
#[derive(Clone, Copy, Debug)]
struct Choice {
    source: SourceKind,
    store: StoreKind,
    effect: EffectKind,
    level: Level,
}

impl Choice {
    fn of(arguments: &Init) -> Result<Self> {
        let effect = arguments.effect.unwrap_or(match arguments.store {
            Some(StoreKind::Redis) => EffectKind::Exec,
            Some(
                StoreKind::Embedded | StoreKind::Sqlite | StoreKind::Postgres | StoreKind::Mysql,
            )
            | None => EffectKind::File,
        });
        let is_sql = effect == EffectKind::Sql;
        let default = if is_sql {
            StoreKind::Sqlite
        } else {
            StoreKind::Embedded
        };
        let store = arguments.store.unwrap_or(default);
        let url = store_url(config::url(store)).map_err(|why| refused(&why.to_string()))?;
        if is_sql && !url.is_transactional() {
            let why = "the effect sql runs in the store's own transaction, so it needs --store sqlite, \
                       postgres or mysql";
            return Err(refused(why));
        }
        if effect == EffectKind::File && !url.keeps_marks() {
            let why = "the effect file needs a store that keeps the length of the output, which Redis does \
                       not; choose another with --effect";
            return Err(refused(why));
        }
        Ok(Self {
            source: arguments.source,
            store,
            effect,
            level: arguments.level,
        })
    }
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("--store: {why}"))
}

fn write(dir: &Path, files: &[File]) -> Result<()> {
    let there = files.iter().map(|file| dir.join(file.name));
    if let Some(path) = there
        .into_iter()
        .find(|path| path.symlink_metadata().is_ok())
    {
        return Err(is_there(&path));
    }
    let is_new = !dir.exists();
    std::fs::create_dir_all(dir).map_err(|error| cannot_write(dir, error))?;
    let mut written: Vec<PathBuf> = Vec::new();
    for file in files {
        let path = dir.join(file.name);
        let result = create(&path, &file.text);
        if !matches!(&result, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            written.push(path.clone());
        }
        if let Err(error) = result {
            // If a file cannot be removed either, the failure itself tells it.
            for path in &written {
                let _ = std::fs::remove_file(path);
            }
            if is_new {
                let _ = std::fs::remove_dir(dir);
            }
            return Err(match error.kind() {
                io::ErrorKind::AlreadyExists => is_there(&path),
                _ => cannot_write(&path, error),
            });
        }
    }
    Ok(())
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn is_there(path: &Path) -> Error {
    let message = format!(
        "{} is there already and init overwrites nothing; name another folder",
        path.display()
    );
    Error::new(ErrorKind::InvalidInput, message)
}

fn cannot_write(path: &Path, error: io::Error) -> Error {
    let message = format!("cannot write {}: {error}", path.display());
    Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::TargetUnavailable)
        .not_applied()
        .with_source(error)
}

/// The documented object.
#[derive(Serialize)]
struct Written {
    dir: String,
    files: Vec<&'static str>,
    /// Commands to copy, in order.
    next: Vec<String>,
}

impl Answer for Written {
    fn describe(&self, block: &mut Block) {
        block
            .field("folder", &self.dir)
            .field("files", self.files.join(", "))
            .bytes("next", (self.next.join("\n") + "\n").as_bytes());
    }
}

/// The command that enters a folder, unless it is the current one.
fn into(dir: &Path) -> Option<String> {
    if dir == Path::new(".") {
        return None;
    }
    let folder = quoted_path(dir);
    // `cd -` would go back, and `cd -x` would take an option.
    let marker = if folder.trim_start_matches('\'').starts_with('-') {
        "-- "
    } else {
        ""
    };
    let here = if dir == Path::new("-") { "./" } else { "" };
    Some(format!("cd {marker}{here}{folder}"))
}

/// The commands to type now.
fn next(dir: &Path, choice: Choice) -> Vec<String> {
    let mut commands: Vec<_> = into(dir).into_iter().collect();
    match choice.effect {
        EffectKind::Sql => commands.extend(match choice.store {
            StoreKind::Postgres => Some(format!("psql {} -f setup.sql", config::POSTGRES_URL)),
            StoreKind::Mysql => {
                Some("mysql --host=127.0.0.1 --user=semel semel < setup.sql".to_owned())
            }
            StoreKind::Sqlite => Some("(umask 077; sqlite3 payments.db < setup.sql)".to_owned()),
            StoreKind::Embedded | StoreKind::Redis => None,
        }),
        EffectKind::Http => commands.push("python3 server.py 9000 &".to_owned()),
        EffectKind::File
        | EffectKind::Exec
        | EffectKind::Jsonl
        | EffectKind::Stdout
        | EffectKind::Nats
        | EffectKind::Kafka
        | EffectKind::Amqp => {}
    }
    commands.extend(broker::target(choice.effect).map(str::to_owned));
    let check = "semel check --sample payments.ndjson".to_owned();
    let run = match choice.source {
        SourceKind::File => "semel run",
        SourceKind::Stdin => "semel run < payments.ndjson",
        SourceKind::Webhook => {
            commands.extend([check, "semel run &".to_owned(), SEND.to_owned()]);
            commands.push(format!("{SEND}   # again: nothing happens twice"));
            return commands;
        }
        SourceKind::Nats | SourceKind::Kafka | SourceKind::Amqp => {
            let [make, publish] = broker::source(choice.source).unwrap_or_default();
            commands.extend([make.to_owned(), publish.to_owned(), check]);
            commands.push(
                "semel run   # until Ctrl-C; publish the sample again: nothing happens twice"
                    .to_owned(),
            );
            return commands;
        }
    };
    commands.extend([check, run.to_owned()]);
    commands.push(format!("{run}   # again: nothing happens twice"));
    commands
}

/// The command that sends the sample, as a provider would.
const SEND: &str = "while read -r line; do curl --data-binary \"$line\" http://127.0.0.1:8282/payments </dev/null; done \
                    <payments.ndjson";

#[cfg(test)]
mod tests;
