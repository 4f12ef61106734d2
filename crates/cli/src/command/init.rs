//! `semel init`: writes a configuration to begin with and a sample with duplicates, and names the commands to
//! type next.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use semel_backends::is_broker_built_in;
use semel_config::starter::{
    Choice, EffectKind, GATEWAY_COMMANDS, SourceKind, StarterFile, StoreKind, gateway_files,
};
use semel_core::{Clock, Code, Error, ErrorKind, Result};
use semel_engine::system::SystemClock;
use serde::Serialize;

use crate::Exit;
use crate::args::Init;
use crate::configuration::store_url;
use crate::output::{self, Answer, Answers, Block};
use crate::shell::quoted_path;

/// Writes all files or none, and never over an existing one.
pub(crate) fn init(arguments: &Init) -> Result<Exit> {
    if arguments.gateway {
        return gateway(arguments);
    }
    let choice = choice(arguments)?;
    let files = choice.files(SystemClock::new().now());
    write(&arguments.dir, &files)?;
    let written = Written {
        dir: arguments.dir.display().to_string(),
        files: files.iter().map(|file| file.name).collect(),
        next: next(&arguments.dir, choice.commands()),
    };
    let _ = Answers::new(arguments.format).print(&written)?;
    for feature in missing(choice.source, choice.effect) {
        output::warning(format!(
            "{feature} is not built into this program; build it with --features {feature}"
        ));
    }
    Ok(Exit::Done)
}

/// The same for a gateway.
fn gateway(arguments: &Init) -> Result<Exit> {
    let store = arguments.store.unwrap_or(StoreKind::Embedded);
    store_url(store.url()).map_err(|why| refused(&why.to_string()))?;
    let files = gateway_files(store);
    write(&arguments.dir, &files)?;
    let written = Written {
        dir: arguments.dir.display().to_string(),
        files: files.iter().map(|file| file.name).collect(),
        next: next(&arguments.dir, GATEWAY_COMMANDS.map(str::to_owned)),
    };
    let _ = Answers::new(arguments.format).print(&written)?;
    Ok(Exit::Done)
}

/// Takes the choices of the person, and refuses those that do not go together.
fn choice(arguments: &Init) -> Result<Choice> {
    let effect = arguments.effect.unwrap_or(match arguments.store {
        Some(StoreKind::Redis) => EffectKind::Exec,
        Some(StoreKind::Embedded | StoreKind::Sqlite | StoreKind::Postgres | StoreKind::Mysql)
        | None => EffectKind::File,
    });
    let is_sql = effect == EffectKind::Sql;
    let default = if is_sql {
        StoreKind::Sqlite
    } else {
        StoreKind::Embedded
    };
    let store = arguments.store.unwrap_or(default);
    let url = store_url(store.url()).map_err(|why| refused(&why.to_string()))?;
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
    Ok(Choice {
        source: arguments.source,
        store,
        effect,
        level: arguments.level,
    })
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("--store: {why}"))
}

fn write(dir: &Path, files: &[StarterFile]) -> Result<()> {
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

/// The commands to type now, from the current folder on.
fn next(dir: &Path, commands: impl IntoIterator<Item = String>) -> Vec<String> {
    into(dir).into_iter().chain(commands).collect()
}

/// The chosen brokers that this program does not support, each by the feature that brings it.
fn missing(source: SourceKind, effect: EffectKind) -> impl Iterator<Item = &'static str> {
    let brokers = [
        ("nats", SourceKind::Nats, EffectKind::Nats),
        ("kafka", SourceKind::Kafka, EffectKind::Kafka),
        ("amqp", SourceKind::Amqp, EffectKind::Amqp),
    ];
    brokers
        .into_iter()
        .filter(move |(_, from, to)| *from == source || *to == effect)
        .map(|(feature, ..)| feature)
        .filter(|feature| !is_broker_built_in(feature))
}

#[cfg(test)]
mod tests;
