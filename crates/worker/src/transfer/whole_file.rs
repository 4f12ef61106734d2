//! A file that exists whole or not at all.

use std::fs::File;
use std::path::{Path, PathBuf};

use semel_core::{Code, Error, ErrorKind, Result};
use tempfile::NamedTempFile;

/// A file under a temporary name until it is whole. If it is dropped before that, it is removed.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    partial: NamedTempFile,
}

impl WholeFile {
    /// Creates the file under a temporary name beside `path`, and returns it. A device or a pipe is refused: it
    /// would be replaced, not written.
    ///
    /// The file is for its owner alone, since it holds messages; users who may read one that it replaces may read it,
    /// too. Nobody can have put another file in its place: its name cannot be guessed, and it is new.
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
        if path.file_name().is_none() {
            return Err(refused(format!("{} names no file", path.display())));
        }
        let made = || -> std::io::Result<_> {
            let partial = tempfile::Builder::new()
                .prefix(".semel-export-")
                .suffix(".partial")
                .tempfile_in(folder(&path))?;
            if let Ok(there) = std::fs::metadata(&path) {
                partial.as_file().set_permissions(there.permissions())?;
            }
            let file = partial.as_file().try_clone()?;
            Ok((partial, file))
        };
        let (partial, file) = made().map_err(|error| cannot(&path, error))?;
        Ok((Self { path, partial }, file))
    }

    /// Opens what was written so far, to be read.
    ///
    /// # Errors
    ///
    /// `target-unavailable`
    pub fn read(&self) -> Result<File> {
        File::open(self.partial.path()).map_err(|error| cannot(&self.path, error))
    }

    /// Gives the file its name, durably.
    ///
    /// # Errors
    ///
    /// `target-unavailable`
    pub fn finish(self, file: &File) -> Result<()> {
        let Self { path, partial } = self;
        let done = || -> std::io::Result<()> {
            file.sync_all()?;
            partial.persist(&path)?;
            File::open(folder(&path))?.sync_all()
        };
        done().map_err(|error| cannot(&path, error))
    }
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn cannot(path: &Path, error: std::io::Error) -> Error {
    let message = format!("cannot write {}", path.display());
    Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::TargetUnavailable)
        .with_source(error)
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_partial_file_has_a_name_of_its_own_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.jsonl");
        let (one, mut file) = WholeFile::create(&path).expect("created");
        let (other, _) = WholeFile::create(&path).expect("created");
        assert_ne!(one.partial.path(), other.partial.path());
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(one.partial.path()), 0o600);
        file.write_all(b"all").expect("written");
        assert!(!path.exists());
        drop(other);
        one.finish(&file).expect("whole");
        assert_eq!(
            (fs::read(&path).expect("there"), mode(&path)),
            (b"all".to_vec(), 0o600)
        );
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 1, "the file alone");
    }

    #[test]
    fn who_may_read_what_is_replaced_may_read_the_new_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.jsonl");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
        let (whole, file) = WholeFile::create(&path).expect("created");
        whole.finish(&file).expect("whole");
        let mode = fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode, fs::read(&path).expect("there").len()), (0o640, 0));
    }
}
