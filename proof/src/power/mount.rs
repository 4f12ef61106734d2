//! A disk that forgets, as a file system of the machine: the file operations of a store or a server
//! come here by way of the kernel.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    AccessFlags, BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType,
    Filesystem, FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::mount::UnmountFlags;

use super::disk::{Disk, Inode};

/// A disk that is mounted, until this is dropped. Its process must map no file of it: while the
/// kernel waits for this file system, it may hold what a page fault in here needs.
pub(crate) struct Mounted {
    disk: Shared,
    session: Option<BackgroundSession>,
    at: PathBuf,
}

/// The disk below a mount.
#[derive(Clone)]
struct Shared(Arc<Mutex<Disk>>);

impl Mounted {
    /// # Errors
    /// As the system reports them: a mount needs root and `/dev/fuse`.
    pub(crate) fn new(disk: Disk, at: &Path) -> io::Result<Self> {
        let disk = Shared(Arc::new(Mutex::new(disk)));
        let mut config = Config::default();
        let name = MountOption::FSName("semel-power".to_owned());
        config.mount_options = vec![name, MountOption::NoAtime];
        config.acl = SessionACL::All;
        let session = fuser::Session::new(Requests(disk.clone()), at, &config)?.spawn()?;
        Ok(Self {
            disk,
            session: Some(session),
            at: at.to_owned(),
        })
    }

    pub(crate) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().expect("nothing panics while it is locked")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily, so that it goes even while a server still has files open. The thread of the session
        // ends when the last of them is closed, and need not be waited for.
        let unmounted = rustix::mount::unmount(&self.at, UnmountFlags::DETACH);
        drop(unmounted.map(|()| self.session.take()));
    }
}

/// The requests of the kernel.
struct Requests(Shared);

impl Requests {
    fn entry(&self, inode: io::Result<u64>, reply: ReplyEntry) {
        match inode.and_then(|inode| self.attributes(inode)) {
            Ok(attributes) => reply.entry(&ALWAYS, &attributes, Generation(0)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn attributes(&self, number: u64) -> io::Result<FileAttr> {
        let disk = self.0.lock();
        Ok(attributes(number, disk.inode(number)?))
    }
}

fn attributes(number: u64, inode: &Inode) -> FileAttr {
    let size = inode.len() as u64;
    let (kind, nlink) = if inode.is_folder {
        (FileType::Directory, 2)
    } else {
        (FileType::RegularFile, 1)
    };
    FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: u16::try_from(inode.mode & 0o7777).unwrap_or(0),
        nlink,
        uid: inode.user,
        gid: inode.group,
        rdev: 0,
        blksize: 4_096,
        flags: 0,
    }
}

fn errno(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::NotFound => Errno::ENOENT,
        io::ErrorKind::DirectoryNotEmpty => Errno::ENOTEMPTY,
        io::ErrorKind::AlreadyExists => Errno::EEXIST,
        io::ErrorKind::Unsupported => Errno::EOPNOTSUPP,
        io::ErrorKind::StorageFull => Errno::ENOSPC,
        io::ErrorKind::ReadOnlyFilesystem => Errno::EROFS,
        _ => Errno::EIO,
    }
}

fn empty(done: Result<(), io::ErrorKind>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(kind) => reply.error(errno(&kind.into())),
    }
}

impl Filesystem for Requests {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.0.lock().find(parent.0, name);
        self.entry(found.map_err(Into::into), reply);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode.0) {
            Ok(attributes) => reply.attr(&ALWAYS, &attributes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut disk = self.0.lock();
        disk.own(inode.0, mode, user, group);
        let sized = size.map_or(Ok(()), |size| disk.set_len(inode.0, size));
        drop(disk);
        match sized
            .map_err(Into::into)
            .and_then(|()| self.attributes(inode.0))
        {
            Ok(attributes) => reply.attr(&ALWAYS, &attributes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let (user, group) = (request.uid(), request.gid());
        let mut disk = self.0.lock();
        let inode = disk.make(parent.0, name, true, mode & 0o7777, user, group);
        drop(disk);
        self.entry(inode.map_err(Into::into), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.0.lock().remove(parent.0, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.0.lock().remove(parent.0, name), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut disk = self.0.lock();
        let renamed = if flags == RenameFlags::RENAME_NOREPLACE
            && disk.find(new_parent.0, new_name).is_ok()
        {
            Err(io::ErrorKind::AlreadyExists)
        } else if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            Err(io::ErrorKind::Unsupported)
        } else {
            disk.rename((parent.0, name), (new_parent.0, new_name))
        };
        empty(renamed, reply);
    }

    fn link(&self, _: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.0.lock().link(inode.0, parent.0, name);
        self.entry(linked.map(|()| inode.0).map_err(Into::into), reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // No other process changes the file, so the kernel's cache of it stays valid.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        at: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.lock().read(inode.0, at, size as usize) {
            Ok(bytes) => reply.data(bytes),
            Err(kind) => reply.error(errno(&kind.into())),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        at: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.lock().write(inode.0, at, bytes) {
            Ok(()) => reply.written(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
            Err(kind) => reply.error(errno(&kind.into())),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(self.0.lock().sync(inode.0), reply);
    }

    fn fsyncdir(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(self.0.lock().sync_folder(inode.0), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        after: u64,
        mut reply: ReplyDirectory,
    ) {
        let disk = self.0.lock();
        // By their numbers, so that continuing behind a removed one skips nothing.
        let mut entries = vec![(1, ".".into(), inode.0), (2, "..".into(), inode.0)];
        let listed = disk.list(inode.0).into_iter();
        entries.extend(listed.map(|(name, number)| (number + 2, name, number)));
        entries.sort_unstable();
        for (place, name, number) in entries {
            let is_folder = disk.inode(number).is_ok_and(|inode| inode.is_folder);
            let kind = if is_folder {
                FileType::Directory
            } else {
                FileType::RegularFile
            };
            if place > after && reply.add(INodeNo(number), place, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(MANY, MANY, MANY, MANY, MANY, 4_096, 255, 4_096);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let (user, group) = (request.uid(), request.gid());
        let mut disk = self.0.lock();
        let inode = disk.make(parent.0, name, false, mode & 0o7777, user, group);
        drop(disk);
        match inode
            .map_err(Into::into)
            .and_then(|inode| self.attributes(inode))
        {
            Ok(attributes) => {
                let (generation, flags) = (Generation(0), FopenFlags::FOPEN_KEEP_CACHE);
                reply.created(&ALWAYS, &attributes, generation, FileHandle(0), flags);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        at: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mut disk = self.0.lock();
        let end = at + len;
        let done = match disk.inode(inode.0) {
            Err(kind) => Err(kind),
            Ok(_) if mode != 0 => Err(io::ErrorKind::Unsupported),
            Ok(file) if file.len() as u64 >= end => Ok(()),
            Ok(_) => disk.set_len(inode.0, end),
        };
        drop(disk);
        empty(done, reply);
    }
}

/// Nothing but the kernel changes the disk.
const ALWAYS: Duration = Duration::from_secs(3_600);
/// Blocks and files for which the disk claims to have room.
const MANY: u64 = 1 << 24;
