//! The fuzzer: cargo-fuzz and a nightly compiler, fetched if they are missing, and the programs that
//! they build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The targets, built.
pub(super) struct Tools {
    /// The folder for everything that fuzzing leaves behind.
    pub(super) folder: PathBuf,
    programs: PathBuf,
}

impl Tools {
    /// Fetches the missing tools and builds every target.
    pub(super) fn ready() -> Result<Self, String> {
        let folder = folder()?;
        if said("rustup", &["run", "nightly", "rustc", "--version"]).is_err() {
            let words = ["toolchain", "install", "nightly", "--profile", "minimal"];
            done(Command::new("rustup").args(words))?;
        }
        let own = folder.join("tools");
        let path = path_with(&own.join("bin"));
        if !is_there(&path) {
            let words = ["install", "cargo-fuzz", "--locked", "--root"];
            done(nightly(&path).args(words).arg(&own))?;
        }
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
        // The versions that are shipped; cargo adds those that only the fuzzer needs.
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
        fs::copy(lock, fuzz.join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
        let build = folder.join("build");
        let mut command = nightly(&path);
        command
            // Without a sanitizer, which looks for errors that safe code cannot have, at half the
            // speed.
            .args(["fuzz", "build", "--sanitizer", "none", "--fuzz-dir"])
            .arg(&fuzz)
            .arg("--target-dir")
            .arg(&build);
        done(&mut command)?;
        let programs = build.join(host()?).join("release");
        Ok(Self { folder, programs })
    }

    /// The fuzzer of one target.
    pub(super) fn program(&self, target: &str) -> PathBuf {
        self.programs.join(target)
    }
}

/// A folder beside cargo's own.
fn folder() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = here.ancestors().nth(2);
    let folder = target
        .ok_or("the proof is in no target folder")?
        .join("fuzz");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// The search path with one more folder at its end.
fn path_with(folder: &Path) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([folder.to_owned()]);
    std::env::join_paths(folders).unwrap_or(path)
}

/// `cargo` of the nightly toolchain, even if the proof was started by another one.
fn nightly(path: &std::ffi::OsStr) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).env("PATH", path);
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

fn is_there(path: &std::ffi::OsStr) -> bool {
    let mut command = nightly(path);
    command.args(["fuzz", "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The triple that cargo-fuzz builds for.
fn host() -> Result<String, String> {
    let text = said("rustup", &["run", "nightly", "rustc", "-vV"])?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or("rustc names no host".to_owned())
}

fn said(program: &str, words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(words).stderr(Stdio::null());
    let wrong = |why: String| format!("`{program} {}`: {why}", words.join(" "));
    match command.output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(wrong(output.status.to_string())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// Runs it with its output on the terminal.
fn done(command: &mut Command) -> Result<(), String> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
