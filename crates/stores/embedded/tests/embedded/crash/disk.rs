//! A model of a directory that forgets: a write is durable only when the file is synced; a file
//! created, renamed or removed is so only when the directory is synced.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use semel_store_embedded::files::{File, Files, Lock, LockError};

use super::planted::Planted;

/// The directory. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    unsynced_names: Vec<NameChange>,
    operations: u64,
    plan: Plan,
    planted: Planted,
    /// Changes that a planted bug holds back from a file until it has been synced.
    held_back: BTreeMap<usize, Change>,
    is_locked: bool,
}

#[derive(Clone, Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Clone)]
enum NameChange {
    Link(String, usize),
    Rename(String, String),
    Unlink(String),
}

/// The planned failure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Plan {
    #[default]
    Nothing,
    /// The power goes right after the operation of this number.
    CrashAfter(u64),
    /// The operation of this number fails half way.
    Fail(u64, io::ErrorKind),
}

/// Fate of unsynced writes when the power goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Survival {
    pub(crate) names: Names,
    pub(crate) data: Data,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Names {
    Lost,
    Kept,
    FirstHalf,
    LastOnly,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Data {
    Lost,
    Kept,
    /// Half of each file's last write is there.
    Torn,
    /// The length of the last write is there, but not its bytes.
    Garbage,
    /// The last write is there, or the later half of it, and nothing before.
    LaterOnly,
}

impl Survival {
    pub(crate) const ALL: [Self; 11] = [
        Self {
            names: Names::Lost,
            data: Data::Lost,
        },
        Self {
            names: Names::Kept,
            data: Data::Kept,
        },
        Self {
            names: Names::Lost,
            data: Data::Kept,
        },
        Self {
            names: Names::Kept,
            data: Data::Lost,
        },
        Self {
            names: Names::Kept,
            data: Data::Torn,
        },
        Self {
            names: Names::Lost,
            data: Data::Torn,
        },
        Self {
            names: Names::Kept,
            data: Data::Garbage,
        },
        Self {
            names: Names::Kept,
            data: Data::LaterOnly,
        },
        Self {
            names: Names::Lost,
            data: Data::LaterOnly,
        },
        Self {
            names: Names::FirstHalf,
            data: Data::Kept,
        },
        Self {
            names: Names::LastOnly,
            data: Data::Kept,
        },
    ];
}

impl Disk {
    pub(crate) fn new(plan: Plan, planted: Planted) -> Self {
        let disk = Self::default();
        disk.state().plan = plan;
        disk.state().planted = planted;
        disk
    }

    pub(crate) fn operations(&self) -> u64 {
        self.state().operations
    }

    pub(crate) fn planted(&self) -> Planted {
        self.state().planted
    }

    /// Returns the directory after the power came back.
    pub(crate) fn survivor(&self, survival: Survival) -> Self {
        let state = self.state();
        let mut names = state.durable_names.clone();
        let changes = &state.unsynced_names;
        let kept = match survival.names {
            Names::Lost => &[],
            Names::Kept => &changes[..],
            Names::FirstHalf => &changes[..changes.len().div_ceil(2)],
            Names::LastOnly => &changes[changes.len().saturating_sub(1)..],
        };
        for change in kept {
            change.apply(&mut names);
        }
        let inodes = state
            .inodes
            .iter()
            .map(|inode| inode.survivor(survival.data))
            .collect();
        let planted = state.planted;
        let survivor = State {
            inodes,
            names: names.clone(),
            durable_names: names,
            planted,
            ..State::default()
        };
        Self(Arc::new(Mutex::new(survivor)))
    }

    /// Returns the directory after its process was killed: what was written is there to be read. With `is_taken_for_clean`, a
    /// sync of it had failed, and the system never writes it.
    pub(crate) fn after_kill(&self, is_taken_for_clean: bool) -> Self {
        let state = self.state();
        let mut inodes = state.inodes.clone();
        if is_taken_for_clean {
            for inode in &mut inodes {
                inode.unsynced.clear();
            }
        }
        let left = State {
            inodes,
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            unsynced_names: state.unsynced_names.clone(),
            planted: state.planted,
            ..State::default()
        };
        Self(Arc::new(Mutex::new(left)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while it is locked")
    }
}

impl State {
    fn is_off(&self) -> bool {
        matches!(self.plan, Plan::CrashAfter(last) if self.operations > last)
    }

    /// Returns whether the store is still being set up, when a skipped sync would be noticed too
    /// soon.
    fn is_young(&self) -> bool {
        self.operations < 40
    }

    /// Counts an operation; returns the error that it half fails with, if it does.
    fn operate(&mut self) -> io::Result<Option<io::Error>> {
        let number = self.operations;
        if self.is_off() {
            return Err(io::Error::other("the power is off"));
        }
        self.operations += 1;
        Ok(match self.plan {
            Plan::Fail(at, kind) if at == number => Some(kind.into()),
            Plan::Nothing | Plan::CrashAfter(_) | Plan::Fail(..) => None,
        })
    }

    fn name_of(&self, inode: usize) -> String {
        let found = self.names.iter().find(|(_, known)| **known == inode);
        found.map_or_else(String::new, |(name, _)| name.clone())
    }

    fn rename(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced_names.push(change);
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Link(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Self::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            Self::Unlink(name) => {
                names.remove(name);
            }
        }
    }
}

impl Inode {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.unsynced.push(change);
    }

    fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            change.apply(&mut self.durable);
        }
    }

    fn survivor(&self, data: Data) -> Self {
        let mut bytes = self.durable.clone();
        let (last, before) = match self.unsynced.split_last() {
            Some((last, before)) => (Some(last), before),
            None => (None, &[][..]),
        };
        match data {
            Data::Lost => {}
            Data::Kept => {
                for change in &self.unsynced {
                    change.apply(&mut bytes);
                }
            }
            Data::Torn | Data::Garbage => {
                for change in before {
                    change.apply(&mut bytes);
                }
                match last {
                    Some(Change::Write {
                        offset,
                        bytes: written,
                    }) => {
                        let written = match data {
                            Data::Torn => written[..written.len() / 2].to_vec(),
                            _ => (7..=250).step_by(31).cycle().take(written.len()).collect(),
                        };
                        Change::Write {
                            offset: *offset,
                            bytes: written,
                        }
                        .apply(&mut bytes);
                    }
                    Some(Change::Truncate(_)) | None => {}
                }
            }
            Data::LaterOnly => match last {
                Some(Change::Write {
                    offset,
                    bytes: written,
                }) if before.is_empty() => {
                    let half = written.len() / 2;
                    Change::Write {
                        offset: offset + half,
                        bytes: written[half..].to_vec(),
                    }
                    .apply(&mut bytes);
                }
                Some(change) => change.apply(&mut bytes),
                None => {}
            },
        }
        Self {
            now: bytes.clone(),
            durable: bytes,
            unsynced: Vec::new(),
        }
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
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
        let mut state = self.state();
        if std::mem::replace(&mut state.is_locked, true) {
            return Err(LockError::Held { pid: Some(1) });
        }
        drop(state);
        Ok(Box::new(DiskLock(self.clone())))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        if state.is_off() {
            return Err(io::Error::other("the power is off"));
        }
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        if let Some(error) = state.operate()? {
            return Err(error);
        }
        let inode = if let Some(&inode) = state.names.get(name) {
            state.inodes[inode].change(Change::Truncate(0));
            inode
        } else {
            state.inodes.push(Inode::default());
            let inode = state.inodes.len() - 1;
            state.rename(NameChange::Link(name.to_owned(), inode));
            inode
        };
        Ok(Box::new(DiskFile {
            disk: self.clone(),
            inode,
        }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let state = self.state();
        if state.is_off() {
            return Err(io::Error::other("the power is off"));
        }
        let inode = state.names.get(name).copied();
        drop(state);
        let inode = inode.ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(DiskFile {
            disk: self.clone(),
            inode,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        if let Some(error) = state.operate()? {
            return Err(error);
        }
        if state.planted == Planted::NoRenewal && from.contains(".log.") {
            // As if the old file were used on, cut to what is whole and synced.
            let (copy, original) = (state.names[from], state.names[to]);
            let now = state.inodes[copy].now.clone();
            let cut = Change::Truncate(now.len());
            state.inodes[original].change(cut);
            let original = state.inodes[original].clone();
            state.inodes[copy] = original;
        }
        state.rename(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        if let Some(error) = state.operate()? {
            return Err(error);
        }
        if !state.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.rename(NameChange::Unlink(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        if let Some(error) = state.operate()? {
            return Err(error);
        }
        if state.planted != Planted::NoDirSync || state.is_young() {
            let changes = std::mem::take(&mut state.unsynced_names);
            for change in changes {
                change.apply(&mut state.durable_names);
            }
        }
        Ok(())
    }

    fn is_volatile(&self) -> bool {
        false
    }
}

struct DiskLock(Disk);

impl Lock for DiskLock {}

impl Drop for DiskLock {
    fn drop(&mut self) {
        self.0.state().is_locked = false;
    }
}

struct DiskFile {
    disk: Disk,
    inode: usize,
}

impl File for DiskFile {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.disk.state().inodes[self.inode].now.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.state();
        if state.is_off() {
            return Err(io::Error::other("the power is off"));
        }
        let bytes = state.inodes[self.inode]
            .now
            .get(within(offset)..)
            .unwrap_or_default();
        let len = buffer.len().min(bytes.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let failure = state.operate()?;
        let mut bytes = bytes.to_vec();
        if failure.is_some() {
            bytes.truncate(bytes.len() / 2);
        }
        let offset = within(offset);
        let name = state.name_of(self.inode);
        let whole = bytes.clone();
        state.planted.change(&name, &mut bytes);
        if state.planted.is_apart() && bytes != whole {
            let change = Change::Write {
                offset,
                bytes: whole,
            };
            state.held_back.insert(self.inode, change);
        }
        state.inodes[self.inode].change(Change::Write { offset, bytes });
        failure.map_or(Ok(()), Err)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let failure = state.operate()?;
        let is_skipped = state.planted == Planted::NoSync && !state.is_young();
        let inode = &mut state.inodes[self.inode];
        if let Some(error) = failure {
            // As Linux does it: the pages count as clean from here on, and are not on disk.
            inode.unsynced.clear();
            return Err(error);
        }
        if !is_skipped {
            inode.sync();
        }
        if let Some(change) = state.held_back.remove(&self.inode) {
            // A write and a sync of its own.
            state.operate()?;
            state.inodes[self.inode].change(change);
            state.operate()?;
            state.inodes[self.inode].sync();
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        if let Some(error) = state.operate()? {
            return Err(error);
        }
        state.inodes[self.inode].change(Change::Truncate(within(len)));
        Ok(())
    }
}

fn within(offset: u64) -> usize {
    usize::try_from(offset).expect("a small file")
}
