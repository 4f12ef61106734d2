//! A file that exists whole or not at all.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use semel_core::{Code, Error, ErrorKind, Result};

/// A file under a temporary name until it is whole. If it is dropped before that, it is removed.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    partial: PathBuf,
    is_whole: bool,
}

impl WholeFile {
    /// Creates the file under a temporary name beside `path`, and returns it. A device or a pipe is refused: it
    /// would be replaced, not written.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: `path` cannot be a file; `target-unavailable`
    pub fn create(path: &Path) -> Result<(Self, File)> {
        // A link stays; the file that it points to is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.exists() && !path.is_file() {
            return Err(refused(format!(
                "{} is no regular file; without --to, the export goes to standard output",
                path.display()
            )));
        }
        let name = path.file_name();
        let name = name.ok_or_else(|| refused(format!("{} names no file", path.display())))?;
        let mut partial = std::ffi::OsString::from(".");
        partial.push(name);
        partial.push(format!(".{}.partial", std::process::id()));
        let target = Self {
            partial: path.with_file_name(partial),
            path,
            is_whole: false,
        };
        let file = target.make().map_err(|error| target.cannot(error))?;
        Ok((target, file))
    }

    /// Creates it for its owner alone, since it holds messages; users who may read the replaced file may read
    /// this one, too.
    fn make(&self) -> std::io::Result<File> {
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&self.partial)?;
        if let Ok(there) = std::fs::metadata(&self.path) {
            file.set_permissions(there.permissions())?;
        }
        Ok(file)
    }

    /// Opens what was written so far, to be read.
    ///
    /// # Errors
    ///
    /// `target-unavailable`
    pub fn read(&self) -> Result<File> {
        File::open(&self.partial).map_err(|error| self.cannot(error))
    }

    /// Gives the file its name, durably.
    ///
    /// # Errors
    ///
    /// `target-unavailable`
    pub fn finish(mut self, file: &File) -> Result<()> {
        let done = || {
            file.sync_all()?;
            std::fs::rename(&self.partial, &self.path)?;
            let folder = self.path.parent().filter(|it| !it.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        done().map_err(|error| self.cannot(error))?;
        self.is_whole = true;
        Ok(())
    }

    fn cannot(&self, error: std::io::Error) -> Error {
        let message = format!("cannot write {}", self.path.display());
        Error::new(ErrorKind::Unavailable, message)
            .with_code(Code::TargetUnavailable)
            .with_source(error)
    }
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidInput, why)
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.is_whole {
            // A partial file that cannot be removed has a name that says what it is.
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}
