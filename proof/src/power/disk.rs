//! A disk that forgets: the contents of a file are durable once the file is synced, and created,
//! renamed or removed names once their folder is. When the power goes, each sector of a file is as it
//! was at some moment since its last sync, and so is each name.

mod crash_image;
mod names;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

pub(crate) use crash_image::{Forgotten, Way};
use names::Names;
use serde::{Deserialize, Serialize};

/// The folder that everything is in.
pub(crate) const ROOT: u64 = 1;

/// A tree of files and folders.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    inodes: BTreeMap<u64, Inode>,
    next: u64,
    names: Names,
    operations: u64,
    plan: Plan,
    is_off: bool,
}

/// A file or a folder. Its owner and its mode are durable at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    pub(crate) is_folder: bool,
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    now: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
}

/// The fault of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Plan {
    #[default]
    Nothing,
    /// The power goes before the operation of this number.
    Cut(u64),
    /// The operation of this number fails.
    FailOnce(u64),
    /// From the operation of this number on there is no room.
    Full(u64),
    /// From the operation of this number on nothing may be written.
    ReadOnly(u64),
}

/// Operations that change something, or make it durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Takes room.
    Grow,
    /// Takes none.
    Change,
    Sync,
}

type Result<T> = std::result::Result<T, io::ErrorKind>;

impl Disk {
    pub(crate) fn new() -> Self {
        let root = Inode {
            is_folder: true,
            mode: 0o755,
            ..Inode::default()
        };
        Self {
            inodes: BTreeMap::from([(ROOT, root)]),
            next: ROOT + 1,
            names: Names::default(),
            operations: 0,
            plan: Plan::Nothing,
            is_off: false,
        }
    }

    /// A copy of a folder of the machine, durable.
    pub(crate) fn copy_of(folder: &Path, user: u32, group: u32) -> io::Result<Self> {
        let mut disk = Self::new();
        disk.own(ROOT, None, Some(user), Some(group));
        disk.copy(ROOT, folder, user, group)?;
        disk.sync_everything();
        Ok(disk)
    }

    /// Makes all of it durable.
    pub(crate) fn sync_everything(&mut self) {
        for inode in self.inodes.values_mut() {
            inode.sync();
        }
        self.names.sync_all();
    }

    fn copy(&mut self, into: u64, folder: &Path, user: u32, group: u32) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let is_folder = entry.file_type()?.is_dir();
            let mode = if is_folder { 0o700 } else { 0o600 };
            let inode = self.make(into, &entry.file_name(), is_folder, mode, user, group)?;
            if is_folder {
                self.copy(inode, &entry.path(), user, group)?;
            } else {
                self.write(inode, 0, &std::fs::read(entry.path())?)?;
            }
        }
        Ok(())
    }

    /// Counts operations anew, and applies `plan` to them.
    pub(crate) fn plan(&mut self, plan: Plan) {
        self.operations = 0;
        self.plan = plan;
    }

    pub(crate) fn operations(&self) -> u64 {
        self.operations
    }

    /// Switches the power off; nothing changes from here on.
    pub(crate) fn switch_off(&mut self) {
        self.is_off = true;
    }

    pub(crate) fn is_off(&self) -> bool {
        self.is_off
    }

    pub(crate) fn inode(&self, inode: u64) -> Result<&Inode> {
        self.inodes.get(&inode).ok_or(io::ErrorKind::NotFound)
    }

    pub(crate) fn find(&self, folder: u64, name: &OsStr) -> Result<u64> {
        self.names.get(folder, name).ok_or(io::ErrorKind::NotFound)
    }

    pub(crate) fn list(&self, folder: u64) -> Vec<(OsString, u64)> {
        self.names.list(folder)
    }

    pub(crate) fn make(
        &mut self,
        folder: u64,
        name: &OsStr,
        is_folder: bool,
        mode: u32,
        user: u32,
        group: u32,
    ) -> Result<u64> {
        self.operate(Kind::Grow)?;
        let number = self.next;
        self.next += 1;
        let inode = Inode {
            is_folder,
            mode,
            user,
            group,
            ..Inode::default()
        };
        self.inodes.insert(number, inode);
        self.names.set(folder, name, Some(number));
        Ok(number)
    }

    pub(crate) fn link(&mut self, inode: u64, folder: u64, name: &OsStr) -> Result<()> {
        self.operate(Kind::Grow)?;
        self.names.set(folder, name, Some(inode));
        Ok(())
    }

    pub(crate) fn remove(&mut self, folder: u64, name: &OsStr) -> Result<()> {
        let inode = self.find(folder, name)?;
        if !self.names.list(inode).is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty);
        }
        self.operate(Kind::Change)?;
        self.names.set(folder, name, None);
        Ok(())
    }

    pub(crate) fn rename(
        &mut self,
        (folder, name): (u64, &OsStr),
        (to, new_name): (u64, &OsStr),
    ) -> Result<()> {
        let inode = self.find(folder, name)?;
        self.operate(Kind::Change)?;
        self.names.rename((folder, name), (to, new_name), inode);
        Ok(())
    }

    pub(crate) fn own(
        &mut self,
        inode: u64,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
    ) {
        if let Some(inode) = self.inodes.get_mut(&inode) {
            inode.mode = mode.map_or(inode.mode, |mode| mode & 0o7777);
            inode.user = user.unwrap_or(inode.user);
            inode.group = group.unwrap_or(inode.group);
        }
    }

    pub(crate) fn read(&self, inode: u64, at: u64, len: usize) -> Result<&[u8]> {
        let bytes = &self.inode(inode)?.now;
        let start = within(at).min(bytes.len());
        let end = start.saturating_add(len).min(bytes.len());
        Ok(&bytes[start..end])
    }

    pub(crate) fn write(&mut self, inode: u64, at: u64, bytes: &[u8]) -> Result<()> {
        self.operate(Kind::Grow)?;
        self.change(
            inode,
            Change::Write {
                at: within(at),
                bytes: bytes.to_vec(),
            },
        )
    }

    pub(crate) fn set_len(&mut self, inode: u64, len: u64) -> Result<()> {
        let grows = within(len) > self.inode(inode)?.now.len();
        self.operate(if grows { Kind::Grow } else { Kind::Change })?;
        self.change(inode, Change::Length(within(len)))
    }

    fn change(&mut self, inode: u64, change: Change) -> Result<()> {
        let inode = self.inodes.get_mut(&inode);
        let inode = inode.ok_or(io::ErrorKind::NotFound)?;
        change.apply(&mut inode.now);
        inode.pending.push(change);
        Ok(())
    }

    /// Makes the bytes and the length of a file durable; not its name.
    pub(crate) fn sync(&mut self, inode: u64) -> Result<()> {
        let operated = self.operate(Kind::Sync);
        let is_off = self.is_off;
        let inode = self.inodes.get_mut(&inode);
        let inode = inode.ok_or(io::ErrorKind::NotFound)?;
        if operated.is_ok() {
            inode.sync();
        } else if !is_off {
            // As Linux does it: pages that could not be written count as written from here on.
            inode.pending.clear();
        }
        operated
    }

    /// Makes the names in a folder durable; not what they name.
    pub(crate) fn sync_folder(&mut self, folder: u64) -> Result<()> {
        self.operate(Kind::Sync)?;
        self.names.sync(folder);
        Ok(())
    }

    fn operate(&mut self, kind: Kind) -> Result<()> {
        let number = self.operations;
        if let Plan::Cut(at) = self.plan
            && number >= at
        {
            self.is_off = true;
        }
        if self.is_off {
            return Err(io::ErrorKind::Other);
        }
        self.operations += 1;
        match self.plan {
            Plan::FailOnce(at) if number == at => Err(io::ErrorKind::Other),
            Plan::Full(at) if number >= at && kind == Kind::Grow => Err(io::ErrorKind::StorageFull),
            Plan::ReadOnly(at) if number >= at && kind != Kind::Sync => {
                Err(io::ErrorKind::ReadOnlyFilesystem)
            }
            Plan::Nothing
            | Plan::Cut(_)
            | Plan::FailOnce(_)
            | Plan::Full(_)
            | Plan::ReadOnly(_) => Ok(()),
        }
    }
}

impl Inode {
    pub(crate) fn len(&self) -> usize {
        self.now.len()
    }

    fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            change.apply(&mut self.durable);
        }
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => put(to, *at, bytes),
            Self::Length(len) => to.resize(*len, 0),
        }
    }
}

fn put(to: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if to.len() < end {
        to.resize(end, 0);
    }
    to[at..end].copy_from_slice(bytes);
}

fn within(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
