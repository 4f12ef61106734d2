//! Compares files by device and inode, so that links hide nothing: no file may be read and written at once.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Tells whether both paths lead to one file, or will once it is created.
pub fn are_one(one: &Path, other: &Path) -> bool {
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one), Ok(other)) => is_one(&one, &other),
        _ => plain(one) == plain(other),
    }
}

/// Returns `path` with its links resolved as far as it exists, so that one file has one name.
pub(super) fn plain(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(resolved) = absolute.canonicalize() {
        return resolved;
    }
    match (
        absolute.parent().map(Path::canonicalize),
        absolute.file_name(),
    ) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// Compares devices and inodes. Devices and pipes do not count as files: reading and writing them at once is
/// normal.
pub fn is_one(one: &Metadata, other: &Metadata) -> bool {
    one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_both_kinds_lead_to_one_file() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("in"), "a\n")?;
        std::fs::write(at("other"), "a\n")?;
        std::fs::hard_link(at("in"), at("hard"))?;
        std::os::unix::fs::symlink("in", at("soft"))?;
        for name in ["in", "hard", "soft", "./in"] {
            assert!(are_one(&at("in"), &at(name)), "{name}");
        }
        assert!(!are_one(&at("in"), &at("other")));
        // These files do not exist yet.
        assert!(are_one(&at("new"), &at("./new")));
        assert!(!are_one(&at("new"), &at("newer")));
        assert!(!are_one(Path::new("/dev/null"), Path::new("/dev/null")));
        Ok(())
    }
}
