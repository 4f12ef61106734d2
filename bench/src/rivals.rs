//! Programs to compare with, built here from `bench/rivals`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// `RocksDB`, taking turns slice by slice.
pub(crate) struct Rival {
    child: Child,
    go: ChildStdin,
    figures: BufReader<ChildStdout>,
}

impl Rival {
    /// Builds and starts it. Needs a C++ compiler and `RocksDB`'s headers (Debian: librocksdb-dev).
    pub(crate) fn rocksdb(
        folder: &Path,
        batch: usize,
        batches: usize,
        slices: usize,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let program = build("rocksdb", &["-lrocksdb"])?;
        let mut child = Command::new(program)
            .arg(folder.join("rocksdb"))
            .args([batch, batches, slices].map(|number| number.to_string()))
            .arg("7")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let go = child.stdin.take().ok_or("no standard input")?;
        let figures = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        Ok(Self { child, go, figures })
    }

    /// Lets it run one slice; returns decisions per second.
    pub(crate) fn slice(&mut self) -> Result<f64, Box<dyn std::error::Error>> {
        writeln!(self.go, "go")?;
        self.go.flush()?;
        let mut line = String::new();
        self.figures.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // It ends by itself when its input closes; a benchmark that failed half way ends it here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn build(name: &str, libraries: &[&str]) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = bench.join("../target").join(format!("rival-{name}"));
    let status = Command::new("c++")
        .args(["-O2", "-std=c++17"])
        .arg(bench.join("rivals").join(format!("{name}.cc")))
        .args(libraries)
        .arg("-o")
        .arg(&program)
        .status()
        .map_err(|error| format!("no C++ compiler: {error}"))?;
    if !status.success() {
        return Err("the rival does not build; Debian has it in librocksdb-dev".into());
    }
    Ok(program)
}
