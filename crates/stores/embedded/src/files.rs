//! The lowest seam: one directory of files, as the store needs it.
//!
//! Tests can replace it by a disk that fails, tears and forgets on cue. Nothing in here knows a
//! format.

mod real;

use std::io;

pub use real::RealFiles;
pub(crate) use real::{is_volatile, open_to_read};

/// One directory. Names are plain file names in it.
///
/// A write is durable only after [`File::sync`]; a creation, renaming or removal only after
/// [`Files::sync_dir`].
pub trait Files: Send + Sync + 'static {
    /// Takes the exclusive lock of the directory by its lock file `name`, creating the file.
    ///
    /// # Errors
    /// [`LockError::Held`] if another process has it, anything else as the system reports it.
    fn lock(&self, name: &str) -> Result<Box<dyn Lock>, LockError>;

    /// Lists the names of all files and folders in the directory.
    ///
    /// # Errors
    /// As the system reports them.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates a file, or empties the one that is there, for reading and writing.
    ///
    /// # Errors
    /// As the system reports them.
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// As the system reports them.
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Gives a file another name, replacing the file that has it.
    ///
    /// # Errors
    /// As the system reports them.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As the system reports them.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renamings and removals durable.
    ///
    /// # Errors
    /// As the system reports them.
    fn sync_dir(&self) -> io::Result<()>;

    /// Returns whether the file system lives in memory only, so that no sync survives a power cut.
    fn is_volatile(&self) -> bool;
}

/// One file.
pub trait File: Send + Sync + 'static {
    /// Returns its length in bytes.
    ///
    /// # Errors
    /// As the system reports them.
    fn len_bytes(&self) -> io::Result<u64>;

    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    ///
    /// # Errors
    /// As the system reports them.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes`. After an error, any part of them may have been written.
    ///
    /// # Errors
    /// As the system reports them.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes all writes durable, with the length.
    ///
    /// # Errors
    /// As the system reports them.
    fn sync(&self) -> io::Result<()>;

    /// Cuts the file to `len` bytes.
    ///
    /// # Errors
    /// As the system reports them.
    fn truncate(&self, len: u64) -> io::Result<()>;
}

/// Copies the first `len` bytes of a file into a new one of this name, durably but for the name, and returns it.
///
/// # Errors
/// As the system reports them; `UnexpectedEof`: the file is shorter.
pub(crate) fn copied(
    files: &dyn Files,
    from: &dyn File,
    len: u64,
    name: &str,
) -> io::Result<Box<dyn File>> {
    let copy = files.create(name)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < len {
        let left = usize::try_from(len - at).unwrap_or(usize::MAX);
        let part = &mut buffer[..left.min(COPY_BYTES)];
        if from.read_at(part, at)? < part.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        copy.write_at(part, at)?;
        at += part.len() as u64;
    }
    copy.sync()?;
    Ok(copy)
}

/// The bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// A lock that is held until it is dropped.
pub trait Lock: Send + Sync + 'static {}

/// Reason why a directory could not be locked.
#[derive(Debug)]
pub enum LockError {
    /// Another process has it.
    Held {
        /// The process id that the lock file names.
        pid: Option<u32>,
    },
    /// The lock file could not be created or locked.
    Failed(io::Error),
}
