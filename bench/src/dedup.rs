//! `semel dedup`, durable and `--ephemeral`, beside `mawk '!seen[$0]++'`, which keeps every line it has seen in
//! memory.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::figures::{Figures, timed};

/// Seconds over 5 million lines of 100 bytes, half of them repeats of any earlier one.
pub(crate) fn time() -> crate::Outcome {
    let semel = std::env::var_os("SEMEL_BIN")
        .ok_or("SEMEL_BIN names no semel binary; cargo xtask bench sets it")?;
    let folder = tempfile::tempdir_in(".")?;
    let site = Site {
        semel,
        folder: folder.path().to_owned(),
    };
    site.generate()?;
    let sides = [
        Side::Mawk,
        Side::Semel("line", false),
        Side::Semel("json:/id", false),
        Side::Semel("line", true),
        Side::Semel("json:/id", true),
        Side::Ephemeral("line"),
        Side::Ephemeral("json:/id"),
    ];
    let mut seconds = [const { Vec::new() }; 7];
    let mut most_bytes = [0; 7];
    for _ in 0..ROUNDS {
        for (at, side) in sides.into_iter().enumerate() {
            let (taken, bytes) = site.run(side)?;
            seconds[at].push(taken);
            most_bytes[at] = bytes.max(most_bytes[at]);
        }
    }
    println!("dedup, {LINES} lines of {LINE_BYTES} bytes, half of them repeats, {ROUNDS} rounds");
    println!("| | seconds | times as fast as mawk, round by round | peak MiB |");
    println!("|---|---|---|---|");
    for (at, side) in sides.into_iter().enumerate() {
        println!(
            "| {side} | {} | {} | {} |",
            Figures::of(seconds[at].clone()),
            Figures::ratios(&seconds[0], &seconds[at]),
            most_bytes[at] >> 20
        );
    }
    Ok(())
}

/// The program under test.
#[derive(Clone, Copy)]
enum Side {
    Mawk,
    /// By this key; into a file with `--to`, or to standard output.
    Semel(&'static str, bool),
    /// By this key, in memory only.
    Ephemeral(&'static str),
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mawk => f.write_str("`mawk '!seen[$0]++'`, in memory"),
            Self::Semel(key, false) => write!(f, "`semel dedup --key {key}`, durable"),
            Self::Semel(key, true) => write!(f, "`semel dedup --key {key} --to FILE`, durable"),
            Self::Ephemeral(key) => write!(f, "`semel dedup --ephemeral --key {key}`, in memory"),
        }
    }
}

/// A folder with the input.
struct Site {
    semel: OsString,
    folder: PathBuf,
}

impl Site {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn generate(&self) -> std::io::Result<()> {
        let mut input = BufWriter::with_capacity(1 << 20, File::create(self.path("in"))?);
        let mut random = Numbers(0x9E37_79B9_7F4A_7C15);
        let mut known: Vec<u64> = Vec::with_capacity(LINES);
        for _ in 0..LINES {
            let is_new = known.is_empty() || random.next() & 1 == 0;
            let id = if is_new {
                let id = random.next();
                known.push(id);
                id
            } else {
                let at = random.next() % known.len() as u64;
                known[usize::try_from(at).unwrap_or(0)]
            };
            let more = id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            writeln!(
                input,
                r#"{{"id":"{id:016x}-{more:016x}","amount":{},"note":"{:x>32}"}}"#,
                10_000 + id % 90_000,
                ""
            )?;
        }
        input.flush()
    }

    /// Runs one side over the input; returns the seconds it took and its peak memory in bytes.
    fn run(&self, side: Side) -> Result<(f64, u64), Box<dyn std::error::Error>> {
        for name in ["out", "store"] {
            let path = self.path(name);
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_dir_all(&path);
        }
        // Syncs, so that no side pays for writes that another has left.
        Command::new("sync").status()?;
        let mut command = match side {
            Side::Mawk => {
                let mut mawk = Command::new("mawk");
                mawk.arg("!seen[$0]++");
                mawk
            }
            Side::Semel(key, is_file) => {
                let mut semel = Command::new(&self.semel);
                semel.args(["dedup", "--store", "embedded:store", "--key", key]);
                if is_file {
                    semel.args(["--to", "out"]);
                }
                semel
            }
            Side::Ephemeral(key) => {
                let mut semel = Command::new(&self.semel);
                semel.args(["dedup", "--ephemeral", "--key", key]);
                semel
            }
        };
        let stdout = match side {
            Side::Semel(_, true) => Stdio::null(),
            Side::Mawk | Side::Semel(_, false) | Side::Ephemeral(_) => {
                File::create(self.path("out"))?.into()
            }
        };
        command.arg("in").current_dir(&self.folder).stdout(stdout);
        let (taken, ended) = timed(|| -> std::io::Result<_> {
            let mut child = command.spawn()?;
            let mut most_bytes = 0;
            loop {
                most_bytes = peak_bytes(child.id()).unwrap_or(0).max(most_bytes);
                if let Some(status) = child.try_wait()? {
                    return Ok((status, most_bytes));
                }
                sleep(Duration::from_millis(5));
            }
        });
        let (status, most_bytes) = ended?;
        if !status.success() {
            return Err(format!("{side}: {status}").into());
        }
        match side {
            Side::Mawk => std::fs::rename(self.path("out"), self.path("expected"))?,
            Side::Semel(..) | Side::Ephemeral(_)
                if is_same(&self.path("out"), &self.path("expected"))? => {}
            Side::Semel(..) | Side::Ephemeral(_) => {
                return Err(format!("{side} printed other lines than mawk").into());
            }
        }
        Ok((taken.as_secs_f64(), most_bytes))
    }
}

/// The most memory that a process ever had resident.
fn peak_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

fn is_same(one: &Path, other: &Path) -> std::io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        if other.read_exact(&mut right[..count]).is_err() || left[..count] != right[..count] {
            return Ok(false);
        }
    }
}

/// A seeded generator (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

const LINES: usize = 5_000_000;
const LINE_BYTES: usize = 100;
const ROUNDS: usize = 3;
