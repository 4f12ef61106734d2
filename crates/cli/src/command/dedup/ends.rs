//! Opens the targets of the lines and of the summary, and makes sure that no two files are the same.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind as IoErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use semel_core::{Code, Error, ErrorKind, Result};
use semel_engine::effect::{Class, OnDoubt};
use semel_supervisor::same_file;
use semel_worker::dedup::{Input, Output, Pipe};
use semel_worker::effect::FileOutput;

use crate::args::{self, OnDoubt as Choice};
use crate::output;

/// The target of the lines.
#[derive(Debug)]
pub(super) enum Target {
    File { path: PathBuf, is_append: bool },
    Stdout { stdout: File, on_doubt: OnDoubt },
}

impl Target {
    /// Takes the target from the arguments and checks it against the input; opens nothing.
    pub(super) fn of(arguments: &args::Dedup, input: &Input) -> Result<Self> {
        if let Some(path) = &arguments.to {
            if std::fs::metadata(path).is_ok_and(|there| input.is(&there)) {
                return Err(same_file::error(&path.display().to_string(), "the input"));
            }
            return Ok(Self::File {
                path: path.clone(),
                is_append: arguments.append,
            });
        }
        // A second handle on the same stream, because the one of `std` would search for line feeds once more.
        let stdout = std::io::stdout().as_fd().try_clone_to_owned();
        let stdout = File::from(stdout.map_err(output::cannot_print)?);
        let is_input = stdout.metadata().is_ok_and(|there| input.is(&there));
        if is_input {
            return Err(same_file::error("standard output", "the input"));
        }
        Ok(Self::Stdout {
            stdout,
            on_doubt: match arguments.on_doubt {
                Choice::Repeat => OnDoubt::Repeat,
                Choice::Park => OnDoubt::Park,
            },
        })
    }

    pub(super) const fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout { .. })
    }

    /// The class of guarantee that lines to this target get.
    pub(super) const fn class(&self) -> Class {
        match self {
            Self::File { .. } => Class::Transactional,
            Self::Stdout { on_doubt, .. } => Class::Unkeyed(*on_doubt),
        }
    }

    pub(super) fn open(self) -> Result<Output> {
        Ok(match self {
            Self::File { path, is_append } => Output::File {
                file: FileOutput::open(path)?,
                is_append,
            },
            Self::Stdout { stdout, on_doubt } => Output::Stream {
                stream: Box::new(Pipe::new(stdout)),
                on_doubt,
            },
        })
    }

    /// Returns the bare standard output, which does not wait for its reader.
    pub(super) fn into_stream(self) -> Result<File> {
        match self {
            Self::Stdout { stdout, .. } => Ok(stdout),
            Self::File { path, .. } => {
                let message = format!("nothing is remembered of {}", path.display());
                Err(Error::new(ErrorKind::InvalidInput, message))
            }
        }
    }

    /// Tells whether this target is the regular file that `other` describes.
    fn is(&self, other: &Metadata) -> bool {
        let there = match self {
            Self::File { path, .. } => std::fs::metadata(path),
            Self::Stdout { stdout, .. } => stdout.metadata(),
        };
        let is_same = |there: Metadata| (there.dev(), there.ino()) == (other.dev(), other.ino());
        other.is_file() && there.is_ok_and(is_same)
    }
}

/// The target of the summary.
#[derive(Debug)]
pub(super) enum SummaryFile {
    Stderr,
    File { path: PathBuf, file: File },
}

impl SummaryFile {
    /// Opens it before any work is done, so that a summary that cannot be written is reported at once.
    pub(super) fn of(path: Option<&Path>, input: &Input, target: &Target) -> Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        if path == Path::new("-") {
            return Ok(Some(Self::Stderr));
        }
        let mut options = OpenOptions::new();
        // The old contents are replaced once there is something to put in their place.
        let file = options.write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| unavailable("open", path, error))?;
        let metadata = file
            .metadata()
            .map_err(|error| unavailable("open", path, error))?;
        if input.is(&metadata) {
            return Err(same_file::error(&path.display().to_string(), "the input"));
        }
        if target.is(&metadata) {
            return Err(same_file::error(&path.display().to_string(), "the output"));
        }
        let path = path.to_owned();
        Ok(Some(Self::File { path, file }))
    }

    pub(super) fn write(self, json: &str) -> Result<()> {
        match self {
            Self::Stderr => output::note(json),
            Self::File { path, mut file } => {
                let mut write = || {
                    if file.metadata()?.is_file() {
                        file.set_len(0)?;
                    }
                    file.write_all(format!("{json}\n").as_bytes())
                };
                write().map_err(|error| unavailable("write", &path, error))?;
            }
        }
        Ok(())
    }
}

fn unavailable(verb: &str, path: &Path, error: std::io::Error) -> Error {
    let cause = match error.kind() {
        IoErrorKind::NotFound => "its folder is missing".into(),
        IoErrorKind::PermissionDenied => "permission denied".into(),
        IoErrorKind::IsADirectory => "it is a folder, not a file".into(),
        IoErrorKind::StorageFull => "no space left on the disk".into(),
        _ => error.to_string(),
    };
    let message = format!("cannot {verb} the summary {}: {cause}", path.display());
    Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::TargetUnavailable)
        .with_source(error)
}
