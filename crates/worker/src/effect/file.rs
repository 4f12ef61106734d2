//! An output file that the store's marks keep exact: bytes that were appended but not recorded are
//! cut off.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::fs::FlockOperation;

use semel_core::{Code, Error, ErrorKind, Result};
use semel_engine::effect::Output;

/// A file to which messages are appended, each with a line feed. Locked for as long as it is open.
#[derive(Debug)]
pub struct FileOutput {
    mark_name: String,
    /// Shared with the running call; a call whose caller has given up still keeps its turn.
    target: Arc<Mutex<Target>>,
}

impl FileOutput {
    /// Opens `path`, or creates it with nothing in it, and locks it.
    ///
    /// # Cost
    ///
    /// A directory sync when it is created
    ///
    /// # Errors
    ///
    /// `Unavailable` with code `target-unavailable` (its folder is missing, it is no regular file,
    /// no permission) or `target-in-use` (another process writes it)
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = open(path).map_err(|error| unavailable("open", path, error))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let message = format!("somebody else writes {}", path.display());
                return Err(Error::new(ErrorKind::Unavailable, message)
                    .with_code(Code::TargetInUse)
                    .not_applied());
            }
            Err(errno) => return Err(unavailable("lock", path, errno.into())),
        }
        let canonical = path
            .canonicalize()
            .map_err(|error| unavailable("open", path, error))?;
        let target = Target {
            path: path.to_owned(),
            file,
            broken: false,
            buffer: Vec::new(),
        };
        Ok(Self {
            mark_name: mark_name(canonical.as_os_str()),
            target: Arc::new(Mutex::new(target)),
        })
    }

    /// Appends whole lines, each with its LF. Answers as [`Output::append`]; blocks.
    pub(crate) fn append_lines(&self, lines: &[u8]) -> Result<u64> {
        self.target().append_lines(lines)
    }

    /// As [`Output::cut_back`]; blocks.
    pub(crate) fn cut_back_now(&self, len_bytes: u64) -> Result<()> {
        self.target().cut_back(len_bytes)
    }

    /// The path that it was opened by.
    pub(crate) fn path(&self) -> PathBuf {
        self.target().path.clone()
    }

    fn target(&self) -> MutexGuard<'_, Target> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on a thread that may block.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Target) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let target = Arc::clone(&self.target);
        let work = move || work(&mut target.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|error| {
                Err(
                    Error::new(ErrorKind::Internal, "writing the output file panicked")
                        .with_source(error),
                )
            })
    }
}

impl Output for FileOutput {
    /// `file:` and the absolute path, links resolved.
    fn mark_name(&self) -> String {
        self.mark_name.clone()
    }

    async fn len_bytes(&mut self) -> Result<u64> {
        self.run(|target| target.len_bytes()).await
    }

    /// # Cancel safety
    ///
    /// Safe: it goes on, and the next call waits for it
    async fn cut_back(&mut self, len_bytes: u64) -> Result<()> {
        self.run(move |target| target.cut_back(len_bytes)).await
    }

    /// # Cost
    ///
    /// One write, one sync
    ///
    /// # Errors
    ///
    /// `Unavailable` with code `target-unavailable`: not applied if the half-written bytes could be
    /// cut off again. After a sync that failed, every call fails
    ///
    /// # Cancel safety
    ///
    /// Safe: it goes on, and the next call waits for it
    async fn append(&mut self, batch: &[Bytes]) -> Result<u64> {
        let batch = batch.to_vec();
        self.run(move |target| target.append(&batch)).await
    }
}

#[derive(Debug)]
struct Target {
    path: PathBuf,
    file: File,
    /// True after a failed sync: the contents of the disk are unknown until the file is opened anew
    /// and cut back.
    broken: bool,
    buffer: Vec<u8>,
}

impl Target {
    fn len_bytes(&self) -> Result<u64> {
        let metadata = self
            .file
            .metadata()
            .map_err(|error| self.unavailable("read", error))?;
        Ok(metadata.len())
    }

    fn cut_back(&mut self, len_bytes: u64) -> Result<()> {
        let len_now = self.len_bytes()?;
        if len_now < len_bytes {
            let message = format!(
                "{} has {len_now} bytes, but {len_bytes} were recorded",
                self.path.display()
            );
            return Err(Error::new(ErrorKind::Corrupt, message)
                .with_code(Code::TargetShortened)
                .not_applied());
        }
        if len_now > len_bytes {
            self.file
                .set_len(len_bytes)
                .map_err(|error| self.unavailable("cut back", error))?;
            self.sync()?;
        }
        Ok(())
    }

    fn append(&mut self, batch: &[Bytes]) -> Result<u64> {
        let mut lines = std::mem::take(&mut self.buffer);
        lines.clear();
        for message in batch {
            lines.extend_from_slice(message);
            lines.push(b'\n');
        }
        let appended = self.append_lines(&lines);
        lines.shrink_to(MOST_KEPT_BYTES);
        self.buffer = lines;
        appended
    }

    fn append_lines(&mut self, lines: &[u8]) -> Result<u64> {
        let before = self.len_bytes()?;
        if self.broken {
            let message = format!(
                "an earlier sync of {} failed; start anew",
                self.path.display()
            );
            return Err(Error::new(ErrorKind::Poisoned, message)
                .with_code(Code::TargetUnavailable)
                .not_applied());
        }
        if let Err(cause) = self.file.write_all(lines) {
            let error = self.unavailable("write", cause);
            return Err(match self.file.set_len(before) {
                Ok(()) => error.not_applied(),
                Err(_) => error,
            });
        }
        self.sync()?;
        self.len_bytes()
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|error| {
            self.broken = true;
            self.unavailable("sync", error)
        })
    }

    fn unavailable(&self, verb: &str, error: io::Error) -> Error {
        unavailable(verb, &self.path, error)
    }
}

impl Drop for Target {
    /// A child that was just forked may hold the file, and so the lock, until it runs its program.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = options.create(true).open(path)?;
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            file
        }
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(
            "it is no regular file, so it cannot be cut back",
        ));
    }
    Ok(file)
}

fn unavailable(verb: &str, path: &Path, error: io::Error) -> Error {
    let cause = match error.kind() {
        io::ErrorKind::NotFound => "its folder is missing".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::IsADirectory => "it is a folder, not a file".into(),
        io::ErrorKind::StorageFull => "no space left on the disk".into(),
        _ => error.to_string(),
    };
    let error = Error::new(
        ErrorKind::Unavailable,
        format!("cannot {verb} {}: {cause}", path.display()),
    )
    .with_code(Code::TargetUnavailable)
    .with_source(error);
    // A failure before the first write changed nothing.
    if matches!(verb, "open" | "lock" | "read") {
        error.not_applied()
    } else {
        error
    }
}

/// The name of the mark, with a path that is not text escaped, so that no two share one.
fn mark_name(path: &OsStr) -> String {
    match path.to_str() {
        Some(path) => format!("file:{path}"),
        None => format!("file:\\{}", path.as_encoded_bytes().escape_ascii()),
    }
}

const MOST_KEPT_BYTES: usize = 1 << 20;
