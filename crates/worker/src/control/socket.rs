//! The control socket: in the folder of the store, for its owner alone.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};

/// The name of the socket in the folder of the store.
pub const SOCKET: &str = "control.sock";

/// A socket that is removed on drop, if it is still the one that was made.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // It does no harm if it stays: the next worker replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens in `folder`, whose lock the caller has: a socket that is there was left by a worker that is gone, and is
/// replaced.
///
/// No other user can connect at any time: the socket is made in a folder that only its owner can enter, and moved
/// once it is private, too.
pub(super) fn listen(folder: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let path = folder.join(SOCKET);
    match fs::symlink_metadata(&path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{SOCKET} is there and is no socket"),
            ));
        }
        Ok(_) | Err(_) => {}
    }
    let private = folder.join(format!(".control-{}", std::process::id()));
    // Left behind by an earlier process with the same number.
    let _ = fs::remove_dir_all(&private);
    DirBuilder::new().mode(0o700).create(&private)?;
    let made = (|| {
        let new = private.join(SOCKET);
        let handle = File::open(&private)?;
        let listener = UnixListener::bind(short(&new, &handle))?;
        fs::set_permissions(&new, Permissions::from_mode(0o600))?;
        fs::rename(&new, &path)?;
        let identity = identity(&path)?;
        Ok((listener, SocketFile { path, identity }))
    })();
    let _ = fs::remove_dir_all(&private);
    made
}

/// Connects to the socket in `folder`.
pub(super) async fn connect(folder: &Path) -> io::Result<UnixStream> {
    let handle = File::open(folder)?;
    let stream = UnixStream::connect(short(&folder.join(SOCKET), &handle)).await?;
    let (theirs, ours) = (stream.peer_cred()?.uid(), geteuid());
    if theirs != ours.as_raw() && !ours.is_root() {
        let message = "the socket belongs to another user than this one";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(stream)
}

/// The path of a socket. Where the system takes none that long, the path goes by way of the open folder that it is
/// in.
fn short(path: &Path, folder: &File) -> PathBuf {
    if path.as_os_str().len() <= LONGEST {
        return path.to_owned();
    }
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Bytes of a path that every system takes.
const LONGEST: usize = 100;
