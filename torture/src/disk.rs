//! A small disk of its own, to be filled or made read-only.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A small file system in memory, unmounted when dropped.
#[derive(Debug)]
pub struct Disk(TempDir);

impl Disk {
    /// Mounts one of `size_bytes`.
    ///
    /// # Panics
    ///
    /// If that is not permitted: a test that needs it has not passed then.
    pub fn mount(size_bytes: u64) -> Self {
        let disk = Self(tempfile::tempdir().expect("a temporary folder"));
        let options = format!("size={size_bytes}");
        disk.run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs"]);
        disk
    }

    /// The folder where it is mounted.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// The path of a file on it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Fills it until only `rest_bytes` are left.
    ///
    /// # Panics
    ///
    /// If it is smaller than that.
    pub fn fill(&self, rest_bytes: u64) {
        let free = rustix::fs::statvfs(self.0.path()).map(|stat| stat.f_bavail * stat.f_frsize);
        let filler = free
            .expect("a file system")
            .checked_sub(rest_bytes)
            .expect("enough to fill");
        let filler = usize::try_from(filler).expect("a small disk");
        std::fs::write(self.path(FILLER), vec![0; filler]).expect("room for it");
    }

    /// Removes the file that filled it.
    ///
    /// # Panics
    ///
    /// If it was not filled.
    pub fn free(&self) {
        std::fs::remove_file(self.path(FILLER)).expect("it was filled");
    }

    /// Makes it read-only.
    ///
    /// # Panics
    ///
    /// If a process still writes to it.
    pub fn make_read_only(&self) {
        self.run("mount", &["-o", "remount,ro"]);
    }

    /// Makes it writable again.
    ///
    /// # Panics
    ///
    /// If that is not permitted.
    pub fn make_writable(&self) {
        self.run("mount", &["-o", "remount,rw"]);
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = Command::new(program)
            .args(arguments)
            .arg(self.0.path())
            .output();
        let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
        assert!(
            output.status.success(),
            "`{program} {}` failed; these tests mount file systems and so need root: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, so that it goes even while a child of a failed test still has it open.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

const FILLER: &str = "filler";
