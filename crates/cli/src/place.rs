//! Watches the store's files. A deleted file can still be written through its open descriptor; without this
//! check Semel would keep writing records that no one can read back.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use semel_config::StoreUrl;
use semel_core::{Code, Error, ErrorKind, Result};
use tokio::sync::watch;

use crate::shell::quoted_path;

/// The folder or file of an open store.
#[derive(Clone, Debug)]
pub(crate) struct Place(Option<Known>);

#[derive(Clone, Debug)]
struct Known {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Place {
    /// The place of the store at `url`, which is open.
    pub(crate) fn of(url: &StoreUrl) -> Self {
        Self(url.path().map(|path| Known {
            path: path.to_owned(),
            identity: identity(path),
        }))
    }

    /// Checks that the place is still the same folder or file.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(Known {
            path,
            identity: known,
        }) = &self.0
        else {
            return Ok(());
        };
        if identity(path) == *known {
            return Ok(());
        }
        let message = format!(
            "{} was removed or replaced while it was in use, so what this run remembered is lost: \
             before the next run, compare its effects with its input",
            path.display()
        );
        Err(Error::new(ErrorKind::Unavailable, message).with_code(Code::StoreUnavailable))
    }

    /// Asks for the end of the run when the place is gone.
    pub(crate) async fn watch(self, stop: watch::Sender<bool>) {
        while self.check().is_ok() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        stop.send_replace(true);
    }
}

/// The warning that other users of this machine can read the store at `url`; nothing if only its owner can.
pub(crate) fn exposed(url: &StoreUrl) -> Option<String> {
    let path = url.path()?;
    let mode = |path: &Path| std::fs::metadata(path).map_or(0, |it| it.permissions().mode());
    let is_exposed = match url {
        // A folder that nobody else may enter keeps its contents private.
        StoreUrl::Embedded(folder) if mode(folder) & OTHERS_ENTER != 0 => {
            let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
            files
                .into_iter()
                .any(|file| mode(&file.path()) & OTHERS_READ != 0)
        }
        StoreUrl::Sqlite(file) => mode(file) & OTHERS_READ != 0,
        StoreUrl::Embedded(_) | StoreUrl::Memory | StoreUrl::Server(_) => false,
    };
    is_exposed.then(|| {
        format!(
            "other users of this machine can read {}, and the messages that are kept in it",
            path.display()
        )
    })
}

/// Returns the command that takes the right to read away from other users.
pub(crate) fn hide(url: &StoreUrl) -> Option<String> {
    let path = quoted_path(url.path()?);
    Some(match url {
        StoreUrl::Embedded(_) => format!("chmod -R go= {path}"),
        StoreUrl::Memory | StoreUrl::Sqlite(_) | StoreUrl::Server(_) => {
            format!("chmod go= {path}*")
        }
    })
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path)
        .ok()
        .map(|found| (found.dev(), found.ino()))
}

const OTHERS_ENTER: u32 = 0o011;
const OTHERS_READ: u32 = 0o044;
const LOOK_EVERY: Duration = Duration::from_secs(1);
