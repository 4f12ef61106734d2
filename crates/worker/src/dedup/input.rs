//! The input, and the thread that reads it.
//!
//! The thread is detached: a read of a silent pipe cannot be interrupted, and nothing may wait for it. It
//! ends at the next read after its lines are no longer wanted, or with the process.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bytes::Bytes;
use semel_core::{Code, Error, ErrorKind, Result};

use super::Dedup;
use super::csv::{self, Csv};
use super::extract::Extractor;
use super::keys::Format;
use super::queue::{self, Receiver};
use super::split::{self, Piece};

/// The origin of the lines.
pub struct Input {
    /// The name in coordinates and messages.
    name: Box<str>,
    stream: Box<dyn Read + Send>,
    /// The length of a regular file.
    total_bytes: Option<u64>,
    /// Device and inode of a regular file.
    identity: Option<(u64, u64)>,
    /// The first record of CSV, once it was read.
    header: Bytes,
}

impl Input {
    /// Opens a file. For a named pipe, waits until another process opens it to write.
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
        // Another handle on the same stream: the one of `std` would buffer the input once more.
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
            header: Bytes::new(),
        }
    }

    /// Reads the header of CSV, which is printed as it came and is no line. Returns the names of the
    /// columns; blocks.
    ///
    /// # Errors   `source-unavailable`: it cannot be read, or is no header
    pub fn read_header(&mut self, csv: &Csv) -> Result<Vec<String>> {
        let read = csv::header(csv, &mut *self.stream, Dedup::MAX_LINE_BYTES);
        let (header, names, rest) = read.map_err(|error| unavailable("read", &self.name, error))?;
        self.header = header;
        let stream = std::mem::replace(&mut self.stream, Box::new(io::empty()));
        self.stream = Box::new(io::Cursor::new(rest).chain(stream));
        Ok(names)
    }

    /// Returns whether it is the regular file that `other` is about.
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
            header: Bytes::new(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// The header; empty if none was read.
    pub(super) const fn header(&self) -> &Bytes {
        &self.header
    }

    /// Starts to read, lines of at most `most_bytes` in batches of at most `most_lines`.
    ///
    /// # Errors   no thread can be started
    pub(super) fn start(
        self,
        mut extractor: Extractor,
        format: Format,
        most_bytes: usize,
        most_lines: usize,
    ) -> Result<Receiver> {
        let (sender, receiver) = queue::queue(most_lines);
        let name = self.name.clone();
        let read = move || {
            let mut is_wanted = true;
            let read = self.read(&format, most_bytes, |piece| {
                extractor.take(piece, most_lines, |batch| {
                    is_wanted = is_wanted && sender.send(batch);
                });
                Ok(is_wanted)
            });
            sender.end(read);
        };
        std::thread::Builder::new()
            .name("semel-dedup-input".into())
            .spawn(read)
            .map_err(|error| unavailable("start a thread to read", &name, error))?;
        Ok(receiver)
    }

    /// Reads to the end, or until `take` wants no more; blocks.
    pub(super) fn read(
        mut self,
        format: &Format,
        most_bytes: usize,
        mut take: impl FnMut(Piece) -> Result<bool>,
    ) -> Result<()> {
        let mut splitter = match format {
            Format::Lines(_) => Splitter::Lines(split::Splitter::new(most_bytes)),
            Format::Csv(csv) => Splitter::Records(Box::new(csv::Splitter::new(csv, most_bytes))),
        };
        let mut wanted = Ok(true);
        while matches!(wanted, Ok(true)) {
            let count = match self.stream.read(splitter.space()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(|error| unavailable("read", &self.name, error))?,
            };
            splitter.filled(count, |piece| {
                if matches!(wanted, Ok(true)) {
                    wanted = take(piece);
                }
            });
            if count == 0 {
                break;
            }
        }
        wanted.map(drop)
    }
}

/// Cuts a stream into lines or records.
enum Splitter {
    Lines(split::Splitter),
    Records(Box<csv::Splitter>),
}

impl Splitter {
    fn space(&mut self) -> &mut [u8] {
        match self {
            Self::Lines(splitter) => splitter.space(),
            Self::Records(splitter) => splitter.space(),
        }
    }

    /// Takes in the first `count` bytes of the space, the end of the stream where there is none.
    fn filled(&mut self, count: usize, take: impl FnMut(Piece)) {
        match self {
            Self::Lines(splitter) if count == 0 => splitter.finish(take),
            Self::Lines(splitter) => splitter.filled(count, take),
            Self::Records(splitter) if count == 0 => splitter.finish(take),
            Self::Records(splitter) => splitter.filled(count, take),
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
