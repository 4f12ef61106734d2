//! A folder in memory that forgets unsynced writes. Each write and each sync is a place to stop at.
//!
//! Names are durable at once: T9 tests them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_scheduled_embedded::files::{File, Files, Lock, LockError};

use super::cast::Place;

/// The folder; clones share it.
#[derive(Clone, Default)]
pub(super) struct Disk {
    state: Arc<Mutex<State>>,
    place: Place,
}

#[derive(Clone, Default)]
struct State {
    files: BTreeMap<String, usize>,
    inodes: Vec<Inode>,
    is_locked: bool,
    how: How,
    syncs: u64,
    fail_sync: Option<u64>,
    failed: bool,
}

/// The answer to a sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum How {
    #[default]
    Honest,
    /// Reports success, and does nothing.
    Lying,
    /// Reports success, also if it failed.
    Hushing,
    /// Answers honestly; but its lock keeps no one out.
    Unlocked,
}

#[derive(Clone, Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Disk {
    /// From now on, syncs are answered in this way.
    pub(super) fn answer(&self, how: How) {
        self.state().how = how;
    }

    /// Makes the sync after this many more fail, once; its writes are lost.
    pub(super) fn fail_sync(&self, after: u64) {
        let mut state = self.state();
        state.fail_sync = Some(state.syncs + after);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state().failed
    }

    pub(super) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Another disk with the contents that would survive a power cut now.
    pub(super) fn after_power_cut(&self) -> Self {
        let mut state = self.state().clone();
        for inode in &mut state.inodes {
            inode.now.clone_from(&inode.durable);
            inode.changes.clear();
        }
        state.is_locked = false;
        state.how = How::Honest;
        state.fail_sync = None;
        Self {
            state: Arc::new(Mutex::new(state)),
            place: Place::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, inode: usize) -> Box<dyn File> {
        Box::new(Open {
            disk: self.clone(),
            inode,
        })
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write(offset, bytes) => {
                let end = offset + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*offset..end].copy_from_slice(bytes);
            }
            Self::Truncate(len) => to.truncate(*len),
        }
    }
}

impl Files for Disk {
    fn lock(&self, _name: &str) -> Result<Box<dyn Lock>, LockError> {
        self.place.stop();
        let mut state = self.state();
        if std::mem::replace(&mut state.is_locked, true) && state.how != How::Unlocked {
            return Err(LockError::Held { pid: None });
        }
        drop(state);
        Ok(Box::new(Locked(self.clone())))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().files.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        state.inodes.push(Inode::default());
        let inode = state.inodes.len() - 1;
        state.files.insert(name.to_owned(), inode);
        drop(state);
        Ok(self.file(inode))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let inode = self.state().files.get(name).copied();
        inode.map_or_else(
            || Err(io::ErrorKind::NotFound.into()),
            |inode| Ok(self.file(inode)),
        )
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.files.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.state().files.remove(name);
        removed.map_or_else(|| Err(io::ErrorKind::NotFound.into()), |_| Ok(()))
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_volatile(&self) -> bool {
        false
    }
}

struct Locked(Disk);

impl Lock for Locked {}

impl Drop for Locked {
    fn drop(&mut self) {
        self.0.state().is_locked = false;
    }
}

struct Open {
    disk: Disk,
    inode: usize,
}

impl Open {
    fn change(&self, change: Change) {
        self.disk.place.stop();
        let mut state = self.disk.state();
        let inode = &mut state.inodes[self.inode];
        change.apply(&mut inode.now);
        inode.changes.push(change);
    }
}

impl File for Open {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.disk.state().inodes[self.inode].now.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let bytes = &state.inodes[self.inode].now;
        let bytes = bytes.get(within(offset)..).unwrap_or_default();
        let len = buffer.len().min(bytes.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change(Change::Write(within(offset), bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.place.stop();
        let mut state = self.disk.state();
        state.syncs += 1;
        let (how, number) = (state.how, state.syncs);
        let fails = state.fail_sync.take_if(|at| *at < number).is_some();
        state.failed |= fails;
        let inode = &mut state.inodes[self.inode];
        let changes = std::mem::take(&mut inode.changes);
        if how == How::Lying {
            return Ok(());
        }
        if fails {
            return if how == How::Hushing {
                Ok(())
            } else {
                Err(io::Error::other("the disk lost what it was given"))
            };
        }
        for change in changes {
            change.apply(&mut inode.durable);
        }
        drop(state);
        self.disk.place.stop();
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.change(Change::Truncate(within(len)));
        Ok(())
    }
}

fn within(offset: u64) -> usize {
    usize::try_from(offset).expect("files here are short")
}
