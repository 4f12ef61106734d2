//! The folder for the temporary files of programs that compute: in memory, if there is room. A store's syncs are counted
//! on disks that the tests simulate; on a real one, shared with five servers, its laws wait and show nothing more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder in memory, which is removed on drop, or none.
pub(crate) struct Scratch(Option<PathBuf>);

impl Scratch {
    /// A folder of this process.
    pub(crate) fn new() -> Self {
        Self::within(Path::new(MEMORY), ROOM_BYTES)
    }

    fn within(memory: &Path, room_bytes: u64) -> Self {
        let folder = memory.join(format!("semel-tests-{}", std::process::id()));
        let has_room = rustix::fs::statvfs(memory)
            .is_ok_and(|it| it.f_bavail.saturating_mul(it.f_frsize) >= room_bytes);
        Self((has_room && fs::create_dir_all(&folder).is_ok()).then_some(folder))
    }

    /// Passes it to a program.
    pub(crate) fn lend(&self, command: &mut Command) {
        if let Some(folder) = &self.0 {
            command.env("TMPDIR", folder);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            // Leftover files are gone when the machine is, at the latest.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Linux keeps it in memory; other systems do not have it.
const MEMORY: &str = "/dev/shm";
/// Several times the room that all of them need at once; a container often has less.
const ROOM_BYTES: u64 = 2 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_is_told_of_a_folder_that_is_there_and_goes_in_the_end() {
        let scratch = Scratch::within(&std::env::temp_dir(), 1);
        let mut command = Command::new("sh");
        scratch.lend(&mut command);
        let told: Vec<_> = command.get_envs().collect();
        let folder = told[0].1.map(PathBuf::from).expect("a folder");
        assert_eq!(told[0].0, "TMPDIR");
        assert!(folder.is_dir());
        drop(scratch);
        assert!(!folder.exists());
    }

    #[test]
    fn without_room_the_disk_is_used() {
        for scratch in [
            Scratch::within(&std::env::temp_dir(), u64::MAX),
            Scratch::within(Path::new("/there/is/none"), 1),
        ] {
            let mut command = Command::new("sh");
            scratch.lend(&mut command);
            assert_eq!(command.get_envs().count(), 0);
        }
    }
}
