//! The input, and the thread that reads it.
//!
//! A thread of its own, and detached: a read of a silent pipe cannot be broken off, and nothing may
//! wait for it. It ends at the next read after nobody wants its lines any more, or with the process.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use semel_core::{Code, Error, ErrorKind, Result};

use super::extract::Extractor;
use super::queue::{self, Receiver};
use super::split::Splitter;

/// Where the lines come from.
pub struct Input {
    /// What coordinates and messages call it.
    name: Box<str>,
    stream: Box<dyn Read + Send>,
    /// The length of a regular file.
    total_bytes: Option<u64>,
    /// Device and inode of a regular file.
    identity: Option<(u64, u64)>,
}

impl Input {
    /// Opens a file. A named pipe is waited for until somebody opens it to write.
    ///
    /// # Errors   `Unavailable` with code `source-unavailable`: missing, a folder, no permission
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy();
        let open = || {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            Ok((file, metadata))
        };
        match open() {
            Ok((file, metadata)) => Ok(Self::of(&name, file, &metadata)),
            Err(error) => Err(unavailable("open", &name, error)),
        }
    }

    /// Standard input.
    ///
    /// # Errors   `Unavailable` with code `source-unavailable`: it is closed, or a folder
    pub fn stdin() -> Result<Self> {
        let name = "stdin";
        // Another handle on the same stream: the one of `std` would buffer what is read once more.
        let open = || {
            let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
            let metadata = file.metadata()?;
            Ok((file, metadata))
        };
        match open() {
            Ok((file, metadata)) => Ok(Self::of(name, file, &metadata)),
            Err(error) => Err(unavailable("open", name, error)),
        }
    }

    /// Any stream.
    pub fn from_stream(name: &str, stream: impl Read + Send + 'static) -> Self {
        Self {
            name: name.into(),
            stream: Box::new(stream),
            total_bytes: None,
            identity: None,
        }
    }

    /// Whether it is the regular file that `other` is about.
    pub fn is(&self, other: &Metadata) -> bool {
        other.is_file() && self.identity == Some((other.dev(), other.ino()))
    }

    fn of(name: &str, file: File, metadata: &Metadata) -> Self {
        let regular = metadata.is_file().then_some(metadata);
        Self {
            name: name.into(),
            stream: Box::new(file),
            total_bytes: regular.map(Metadata::len),
            identity: regular.map(|it| (it.dev(), it.ino())),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// Starts to read, lines of at most `most_bytes` in batches of at most `most_lines`.
    ///
    /// # Errors   no thread is to be had
    pub(super) fn start(
        self,
        extractor: Extractor,
        most_bytes: usize,
        most_lines: usize,
    ) -> Result<Receiver> {
        let (sender, receiver) = queue::queue(most_lines);
        let name = self.name.clone();
        std::thread::Builder::new()
            .name("semel-dedup-input".into())
            .spawn(move || self.read(extractor, most_bytes, most_lines, sender))
            .map_err(|error| unavailable("start a thread to read", &name, error))?;
        Ok(receiver)
    }

    fn read(
        mut self,
        mut extractor: Extractor,
        most_bytes: usize,
        most_lines: usize,
        sender: queue::Sender,
    ) {
        let mut splitter = Splitter::new(most_bytes);
        let mut is_wanted = true;
        while is_wanted {
            let mut hand_over = |piece| {
                extractor.take(piece, most_lines, |batch| {
                    is_wanted = is_wanted && sender.send(batch);
                });
            };
            match self.stream.read(splitter.space()) {
                Ok(0) => {
                    splitter.finish(hand_over);
                    return sender.end(Ok(()));
                }
                Ok(count) => splitter.filled(count, &mut hand_over),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return sender.end(Err(unavailable("read", &self.name, error))),
            }
        }
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("name", &self.name)
            .field("total_bytes", &self.total_bytes)
            .finish_non_exhaustive()
    }
}

fn unavailable(verb: &str, name: &str, error: io::Error) -> Error {
    let cause = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::IsADirectory => "it is a folder, not a file".into(),
        _ => error.to_string(),
    };
    Error::new(
        ErrorKind::Unavailable,
        format!("cannot {verb} {name}: {cause}"),
    )
    .with_code(Code::SourceUnavailable)
    .not_applied()
    .with_source(error)
}
