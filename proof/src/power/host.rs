//! The process of a disk, and the messages to it: a line each way.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use rustix::mount::UnmountFlags;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::dice::Dice;
use super::disk::{Disk, Forgotten, Plan, ROOT, Way};
use super::mount::Mounted;

/// The word that makes this program a disk.
pub(crate) const DISK: &str = "power-disk";

/// A request to a disk.
#[derive(Debug, Serialize, Deserialize)]
enum Ask {
    /// A disk with the contents of `folder`, durable.
    Copy {
        folder: PathBuf,
        user: u32,
        group: u32,
    },
    Mount(PathBuf),
    /// Counts operations anew, and applies this plan to them.
    Plan(Plan),
    SwitchOff,
    /// Asks how many operations there were, and whether the power is off.
    Look,
    /// Unmounts it; the surviving contents are the disk now.
    Forget {
        data: Way,
        names: Way,
        seed: u64,
    },
    /// Unmounts it, all of it durable, and keeps a copy.
    Keep,
    /// Restores the kept copy, or makes a new disk, whatever there was; not mounted.
    Again,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Told {
    operations: u64,
    is_off: bool,
    forgotten: Forgotten,
    failed: Option<String>,
}

/// A disk in a process of its own, and the place where it is mounted. Both end when this does, or
/// its process.
pub(crate) struct Host {
    process: Child,
    wires: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
    at: TempDir,
}

impl Host {
    /// # Errors
    /// If there is no such process.
    pub(crate) fn start() -> Result<Self, String> {
        let failed = |error: io::Error| format!("a disk cannot be had: {error}");
        let program = std::env::current_exe().map_err(failed)?;
        let at = tempfile::Builder::new().prefix("semel-power-").tempdir();
        let mut process = Command::new(program)
            .arg(DISK)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let wires = process.stdin.take().zip(process.stdout.take());
        Ok(Self {
            process,
            wires: Mutex::new(wires.map(|(to, from)| (to, BufReader::new(from)))),
            at: at.map_err(failed)?,
        })
    }

    /// The folder where the disk is mounted.
    pub(crate) fn folder(&self) -> &Path {
        self.at.path()
    }

    pub(crate) fn copy(&self, folder: &Path, user: u32, group: u32) -> Result<(), String> {
        let folder = folder.to_owned();
        let ask = Ask::Copy {
            folder,
            user,
            group,
        };
        self.ask(&ask).map(drop)
    }

    /// Mounts it; that needs root and `/dev/fuse`.
    pub(crate) fn mount(&self) -> Result<(), String> {
        self.ask(&Ask::Mount(self.at.path().to_owned())).map(drop)
    }

    pub(crate) fn plan(&self, plan: Plan) -> Result<(), String> {
        self.ask(&Ask::Plan(plan)).map(drop)
    }

    pub(crate) fn switch_off(&self) -> Result<(), String> {
        self.ask(&Ask::SwitchOff).map(drop)
    }

    pub(crate) fn is_off(&self) -> Result<bool, String> {
        Ok(self.ask(&Ask::Look)?.is_off)
    }

    pub(crate) fn operations(&self) -> Result<u64, String> {
        Ok(self.ask(&Ask::Look)?.operations)
    }

    pub(crate) fn forget(&self, data: Way, names: Way, seed: u64) -> Result<Forgotten, String> {
        let ask = Ask::Forget { data, names, seed };
        Ok(self.ask(&ask)?.forgotten)
    }

    pub(crate) fn keep(&self) -> Result<(), String> {
        self.ask(&Ask::Keep).map(drop)
    }

    pub(crate) fn again(&self) -> Result<(), String> {
        self.ask(&Ask::Again).map(drop)
    }

    fn ask(&self, ask: &Ask) -> Result<Told, String> {
        let failed = |error: io::Error| format!("the disk does not answer: {error}");
        let mut wires = self
            .wires
            .lock()
            .expect("nothing panics while it is locked");
        let (to, from) = wires.as_mut().ok_or("the disk has no ears")?;
        let text = serde_json::to_string(ask).map_err(|error| error.to_string())?;
        to.write_all((text + "\n").as_bytes()).map_err(failed)?;
        let mut line = String::new();
        from.read_line(&mut line).map_err(failed)?;
        let told: Told = serde_json::from_str(&line).map_err(|error| failed(error.into()))?;
        match told.failed {
            Some(failed) => Err(format!("{ask:?}: {failed}")),
            None => Ok(told),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Ok(wires) = self.wires.get_mut() {
            // The process ends when no more requests can come.
            *wires = None;
        }
        let _ = self.process.wait();
        // In case it died before it could.
        let _ = rustix::mount::unmount(self.at.path(), UnmountFlags::DETACH);
    }
}

/// Serves as the process of a disk, until no more requests can come.
pub(crate) fn serve() -> io::Result<()> {
    let mut kept = Disk::new();
    let mut disk = Disk::new();
    let mut mounted = None;
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let ask = serde_json::from_str(&line?)?;
        let done = answer(ask, &mut kept, &mut disk, &mut mounted);
        let told = done.unwrap_or_else(|failed| Told {
            failed: Some(failed.to_string()),
            ..Told::default()
        });
        serde_json::to_writer(&mut output, &told)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

fn answer(
    ask: Ask,
    kept: &mut Disk,
    disk: &mut Disk,
    mounted: &mut Option<Mounted>,
) -> io::Result<Told> {
    let mut told = Told::default();
    match (ask, &mounted) {
        (
            Ask::Copy {
                folder,
                user,
                group,
            },
            _,
        ) => {
            *disk = Disk::copy_of(&folder, user, group)?;
            disk.own(ROOT, Some(0o700), None, None);
            kept.clone_from(disk);
        }
        (Ask::Mount(at), None) => *mounted = Some(Mounted::new(disk.clone(), &at)?),
        (Ask::Plan(plan), Some(mounted)) => mounted.disk().plan(plan),
        (Ask::SwitchOff, Some(mounted)) => mounted.disk().switch_off(),
        (Ask::Look, Some(mounted)) => {
            let disk = mounted.disk();
            told.operations = disk.operations();
            told.is_off = disk.is_off();
        }
        (Ask::Forget { data, names, seed }, Some(of)) => {
            let mut of = of.disk();
            // Writes that still come have no effect.
            of.switch_off();
            (*disk, told.forgotten) = of.survivor(data, names, &mut Dice::new(seed));
            drop(of);
            *mounted = None;
        }
        (Ask::Keep, Some(of)) => {
            let mut of = of.disk();
            of.sync_everything();
            kept.clone_from(&of);
            drop(of);
            *mounted = None;
        }
        (Ask::Again, _) => {
            *mounted = None;
            disk.clone_from(kept);
        }
        (ask, _) => {
            let what = format!("{ask:?}, mounted: {}", mounted.is_some());
            return Err(io::Error::other(what));
        }
    }
    Ok(told)
}
