//! A directory of the operating system.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    fchown,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, statfs};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::{File, Files, Lock, LockError};

/// A real directory.
#[derive(Debug)]
pub struct RealFiles {
    dir: PathBuf,
    handle: fs::File,
}

impl RealFiles {
    /// Opens `dir`, creating it durably if it is not there.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn open(dir: &Path) -> io::Result<Self> {
        create_dir(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
            handle: fs::File::open(dir)?,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Gives a file that the superuser made to the owner of the folder, who could not use it otherwise.
    fn give_away(&self, name: &str, made: &fs::File) {
        let Ok(folder) = self.handle.metadata() else {
            return;
        };
        let is_made_here = made.metadata().is_ok_and(|it| it.uid() == SUPERUSER)
            && folder.uid() != SUPERUSER
            && has_one_name(&self.path(name), made);
        if is_made_here {
            // Where that is not permitted, it stays what it is.
            let _ = fchown(made, Some(folder.uid()), Some(folder.gid()));
        }
    }

    /// Tells whether an open file is the one that has this name now.
    fn is_still(&self, name: &str, file: &fs::File) -> bool {
        let named = fs::metadata(self.path(name));
        let opened = file.metadata();
        let both = named.and_then(|named| Ok((named, opened?)));
        both.is_ok_and(|(named, opened)| (named.dev(), named.ino()) == (opened.dev(), opened.ino()))
    }
}

/// Opens a file of `dir` read-only.
pub(crate) fn open_to_read(dir: &Path, name: &str) -> io::Result<Box<dyn File>> {
    Ok(Box::new(RealFile(fs::File::open(dir.join(name))?)))
}

/// Returns whether `dir` is on a file system in memory.
pub(crate) fn is_volatile(dir: &Path) -> bool {
    statfs(dir).is_ok_and(|stat| matches!(i128::from(stat.f_type), TMPFS | RAMFS))
}

impl Files for RealFiles {
    fn lock(&self, name: &str) -> Result<Box<dyn Lock>, LockError> {
        let mut tried = 0;
        let file = loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(PRIVATE_FILE)
                .open(self.path(name))
                .map_err(LockError::Failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if self.is_still(name, &file) => break file,
                // Whoever had it has removed it: the next one locks another file.
                Ok(()) if tried == MOST_TRIES => return Err(LockError::Held { pid: None }),
                Ok(()) => {
                    tried += 1;
                    std::thread::sleep(BETWEEN_TRIES);
                }
                Err(Errno::WOULDBLOCK) => {
                    let pid = pid_in(&mut file);
                    // A process that was killed while it started a child leaves its lock to that child, until the child
                    // runs its own program.
                    if tried == MOST_TRIES || pid.is_none_or(is_alive) {
                        return Err(LockError::Held { pid });
                    }
                    tried += 1;
                    std::thread::sleep(BETWEEN_TRIES);
                }
                Err(errno) => return Err(LockError::Failed(errno.into())),
            }
        };
        self.give_away(name, &file);
        let pid = format!("{}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.write_all_at(pid.as_bytes(), 0))
            .map_err(LockError::Failed)?;
        Ok(Box::new(RealLock { _file: file }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.dir)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        options.mode(PRIVATE_FILE);
        let file = options.open(self.path(name))?;
        self.give_away(name, &file);
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path(name))?;
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.path(from), self.path(to));
        if let Ok(replaced) = fs::metadata(&to) {
            keep_owner(&from, &replaced)?;
        }
        fs::rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn is_volatile(&self) -> bool {
        is_volatile(&self.dir)
    }
}

struct RealFile(fs::File);

impl File for RealFile {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self
                .0
                .read_at(&mut buffer[filled..], offset + filled as u64)
            {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
}

/// A lock that lives as long as the open file: the system releases it when the process dies.
struct RealLock {
    _file: fs::File,
}

impl Lock for RealLock {}

/// Gives a file the owner, the group and the mode of the one that it is to replace, as far as that is permitted: an order
/// that the superuser gives must not lock out whoever has the store.
fn keep_owner(path: &Path, replaced: &fs::Metadata) -> io::Result<()> {
    let file = fs::File::open(path)?;
    if !has_one_name(path, &file) {
        return Ok(());
    }
    let found = file.metadata()?;
    if (found.uid(), found.gid()) != (replaced.uid(), replaced.gid())
        && fchown(&file, Some(replaced.uid()), Some(replaced.gid())).is_err()
    {
        let _ = fchown(&file, None, Some(replaced.gid()));
    }
    let mut mode = replaced.mode() & PERMISSIONS;
    if file.metadata()?.gid() != replaced.gid() {
        // What its group may do, another one may not.
        mode &= !GROUP;
    }
    if found.mode() & PERMISSIONS != mode {
        let _ = file.set_permissions(fs::Permissions::from_mode(mode));
    }
    Ok(())
}

/// Tells whether an open file has this name and no other: whoever has the folder may have put a link to a file of somebody
/// else there, whose owner and mode are not to be changed.
fn has_one_name(path: &Path, file: &fs::File) -> bool {
    let place = |it: &fs::Metadata| (it.dev(), it.ino(), it.nlink());
    let (named, opened) = (fs::symlink_metadata(path), file.metadata());
    match (named, opened) {
        (Ok(named), Ok(opened)) => place(&named) == place(&opened) && opened.nlink() == 1,
        _ => false,
    }
}

/// Creates `dir`, for its owner alone, and any missing parents. While it is empty, the path from the root of the file
/// system is synced: an earlier process may have created it and died, or failed, before that.
fn create_dir(dir: &Path) -> io::Result<()> {
    if let Some(above) = dir.parent() {
        fs::create_dir_all(above)?;
    }
    match fs::DirBuilder::new().mode(PRIVATE_DIR).create(dir) {
        Err(_) if dir.is_dir() => {}
        made => made?,
    }
    if fs::read_dir(dir)?.next().is_some() {
        return Ok(());
    }
    let dir = dir.canonicalize()?;
    let device = fs::metadata(&dir)?.dev();
    for above in dir.ancestors().skip(1) {
        if fs::metadata(above)?.dev() != device {
            break;
        }
        match fs::File::open(above) {
            Ok(above) => above.sync_all()?,
            // A folder that may be passed but not read was hardly created a moment ago by us.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads the process id from a lock file. The id is a courtesy: a file that cannot be read names nobody.
fn pid_in(file: &mut fs::File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Returns whether a process with this id exists, as far as this one may know.
fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Tries for a lock whose holder is gone.
const MOST_TRIES: u32 = 50;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// Permissions of the folder. Records name keys, and parked messages are kept whole: only the owner may read them.
const PRIVATE_DIR: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
const PERMISSIONS: u32 = 0o777;
const GROUP: u32 = 0o070;
const SUPERUSER: u32 = 0;
const TMPFS: i128 = 0x0102_1994;
const RAMFS: i128 = 0x8584_58f6;

#[cfg(test)]
mod tests {
    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn a_lock_that_a_gone_process_left_to_another_is_waited_for() {
        let dir = tempfile::tempdir().expect("a folder");
        let files = RealFiles::open(dir.path()).expect("a folder");
        let held = files.lock("lock").expect("a lock");
        let refused = |files: &RealFiles| match files.lock("lock") {
            Err(LockError::Held { pid }) => pid,
            other => panic!("{:?}", other.map(|_| ())),
        };
        assert_eq!(refused(&files), Some(std::process::id()), "at once");
        // No process has this id: the highest is below it on every Linux.
        fs::write(dir.path().join("lock"), "4194305\n").expect("a file");
        let letting_go = std::thread::spawn(move || {
            std::thread::sleep(BETWEEN_TRIES * 5);
            drop(held);
        });
        files.lock("lock").map(drop).expect("a lock");
        letting_go.join().expect("no panic");
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_has_its_owner_and_mode() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("log");
        let mode = || fs::metadata(&path).expect("it is there").mode() & PERMISSIONS;
        let owner = |name: &str| {
            let found = fs::metadata(dir.path().join(name)).expect("it is there");
            (found.uid(), found.gid())
        };
        let files = RealFiles::open(dir.path()).expect("a folder");
        files.create("log").expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a right");
        let replace = || {
            files.create("next").expect("a file");
            files.rename("next", "log").expect("renamed");
        };
        replace();
        assert_eq!(mode(), 0o640);
        // Nobody else may give a file away.
        if geteuid().is_root() {
            let other = Some(4_711);
            std::os::unix::fs::chown(&path, other, other).expect("a right");
            replace();
            assert_eq!((owner("log"), mode()), ((4_711, 4_711), 0o640));
            std::os::unix::fs::chown(dir.path(), other, other).expect("a right");
            files.create("new").expect("a file");
            files.lock("lock").map(drop).expect("a lock");
            assert_eq!([owner("new"), owner("lock")], [(4_711, 4_711); 2]);
        }
    }

    /// A link in the folder could have a file of the superuser given to whoever has the folder.
    #[test]
    fn a_link_to_a_file_elsewhere_gives_no_one_that_file() {
        type Link = fn(&Path, &Path) -> io::Result<()>;
        let (dir, elsewhere) = (tempfile::tempdir(), tempfile::tempdir());
        let (dir, elsewhere) = (dir.expect("a folder"), elsewhere.expect("a folder"));
        let files = RealFiles::open(dir.path()).expect("a folder");
        let secret = elsewhere.path().join("secret");
        let state = || {
            let found = fs::metadata(&secret).expect("it is there");
            (found.uid(), found.gid(), found.mode() & PERMISSIONS)
        };
        fs::write(&secret, "").expect("a file");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("a right");
        files.create("log").expect("a file");
        let log = dir.path().join("log");
        fs::set_permissions(&log, fs::Permissions::from_mode(0o644)).expect("a right");
        // Only the superuser has anything to give; of anybody else, the mode alone would show it.
        if geteuid().is_root() {
            let other = Some(4_711);
            std::os::unix::fs::chown(&log, other, other).expect("a right");
            std::os::unix::fs::chown(dir.path(), other, other).expect("a right");
        }
        let before = state();
        let symbolic: Link = |to, from| std::os::unix::fs::symlink(to, from);
        let hard: Link = |to, from| fs::hard_link(to, from);
        for link in [symbolic, hard] {
            for name in ["lock", "next"] {
                link(&secret, &dir.path().join(name)).expect("a link");
            }
            files.lock("lock").map(drop).expect("a lock");
            files.create("next").expect("a file");
            files.rename("next", "log").expect("renamed");
            assert_eq!(state(), before);
            fs::remove_file(dir.path().join("lock")).expect("removed");
            fs::remove_file(&log).expect("removed");
            files.create("log").expect("a file");
            fs::set_permissions(&log, fs::Permissions::from_mode(0o644)).expect("a right");
        }
    }

    #[test]
    fn what_is_made_is_its_owners_alone_and_what_is_there_stays_as_it_is() {
        let above = tempfile::tempdir().expect("a folder");
        let mode = |path: &Path| {
            let found = fs::metadata(path).expect("it is there");
            found.permissions().mode() & 0o777
        };
        let dir = above.path().join("a/store");
        let files = RealFiles::open(&dir).expect("a folder");
        files.create("log").expect("a file");
        files.lock("lock").map(drop).expect("a lock");
        assert_eq!(
            [mode(&dir), mode(&dir.join("log")), mode(&dir.join("lock"))],
            [0o700, 0o600, 0o600]
        );
        for path in [dir.clone(), dir.join("log")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a right");
        }
        let files = RealFiles::open(&dir).expect("a folder");
        files.open("log").map(drop).expect("a file");
        assert_eq!([mode(&dir), mode(&dir.join("log"))], [0o755, 0o755]);
    }
}
