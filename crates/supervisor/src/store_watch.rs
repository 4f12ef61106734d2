//! Watches the store's files. A deleted file can still be written through its open descriptor; without this
//! check Semel would keep writing records that no one can read back.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semel_config::StoreUrl;
use semel_core::{Code, Error, ErrorKind, Result};
use tokio::sync::watch;

/// The folder or file of an open store.
#[derive(Clone, Debug)]
pub struct StoreWatch(Option<Known>);

#[derive(Clone, Debug)]
struct Known {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl StoreWatch {
    /// Begins with the files of the store at `url`, which is open.
    pub fn of(url: &StoreUrl) -> Self {
        Self(url.path().map(|path| Known {
            path: path.to_owned(),
            identity: identity(path),
        }))
    }

    /// Checks that the store is still the same folder or file.
    ///
    /// # Errors
    ///
    /// `Unavailable` with code `store-unavailable`: what this run remembered is lost.
    pub fn check(&self) -> Result<()> {
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

    /// Asks for the end of the run when the store is gone.
    pub async fn watch(self, stop: watch::Sender<bool>) {
        while self.check().is_ok() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        stop.send_replace(true);
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path)
        .ok()
        .map(|found| (found.dev(), found.ino()))
}

const LOOK_EVERY: Duration = Duration::from_secs(1);
