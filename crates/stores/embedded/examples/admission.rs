//! Measures the speed at which a stream is deduplicated, moved and opened again: `admission DIR [LINES [admit|open]]`.
//! The last argument stops the run after that step.
//!
//! Lines of 100 bytes, half of them repeats of any earlier one, are admitted in batches of 10,000 together with the
//! length of an output file. Then the store is reopened, exported, and imported into another one. Each figure comes
//! with the processor time of all threads, which neither syncs nor other work on the machine disturb.

#![expect(clippy::print_stdout, reason = "a measurement prints its figures")]

use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use semel_core::port::checkpoint::{CheckpointStore, Write};
use semel_core::port::transfer::TransferStore;
use semel_core::{
    Admission, ClaimId, ClaimRequest, Clock, ErrorKind, Key, Mark, Scope, Store, Timestamp,
};
use semel_store_embedded::{EmbeddedStore, Options};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("usage: admission DIR [LINES]")?;
    let lines: u64 = args.next().map_or(Ok(5_000_000), |count| count.parse())?;
    let last = args.next();
    let folder = tempfile::tempdir_in(dir)?;
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));

    let store = open(&from)?;
    admit(&store, folder.path(), lines).await?;
    drop(store);
    if last.as_deref() == Some("admit") {
        return Ok(());
    }
    for _ in 0..5 {
        let begun = begin();
        let store = open(&from)?;
        let taken = Spent::since(begun);
        let stats = store.stats().await?;
        let count = stats.records.iter().sum();
        report("open", count, taken);
    }
    if last.as_deref() == Some("open") {
        return Ok(());
    }
    let from = open(&from)?;
    for limit in [1_000, 10_000] {
        transfer(&from, &to, limit).await?;
    }
    Ok(())
}

async fn admit(store: &EmbeddedStore, folder: &Path, lines: u64) -> Result<(), Box<dyn Error>> {
    let scope = Scope::new("", "dedup")?;
    let output = Arc::new(Mutex::new((File::create(folder.join("output"))?, 0_u64)));
    let mut stream = Stream {
        state: 1,
        unique: 0,
    };
    let (mut admitted, mut fresh, mut number) = (Spent::default(), 0_u64, 0_u128);
    let begun = begin();
    while number < u128::from(lines) {
        let batch: Vec<ClaimRequest> = (0..BATCH)
            .map(|_| {
                number += 1;
                let key = Key::from_canonical(stream.line()).ok_or("no key")?;
                let mut request = ClaimRequest::new(scope.clone(), key, ClaimId::from_u128(number));
                request.wants_outcome = false;
                Ok(request)
            })
            .collect::<Result<_, Box<dyn Error>>>()?;
        let write = write_to(Arc::clone(&output));
        let begun = begin();
        let admissions = store.admit_with(batch, write).await?;
        admitted.add(Spent::since(begun));
        let is_new = |admission: &&Admission| matches!(admission, Admission::Granted(_));
        fresh += admissions.iter().filter(is_new).count() as u64;
    }
    report("admit, whole loop", lines, Spent::since(begun));
    report("admit, calls alone", lines, admitted);
    println!("{fresh} new, {} unique", stream.unique);
    assert_eq!(fresh, stream.unique);
    Ok(())
}

/// Appends the granted lines, syncs, and returns the length.
fn write_to(output: Arc<Mutex<(File, u64)>>) -> Write {
    Box::new(move |admissions| {
        let mut bytes = Vec::with_capacity(admissions.len() * 101);
        for admission in admissions {
            if let Admission::Granted(claim) = admission {
                bytes.extend_from_slice(claim.operation.key.as_bytes());
                bytes.push(b'\n');
            }
        }
        let failed = |why: std::io::Error| {
            semel_core::Error::new(ErrorKind::Unavailable, "writing the output").with_source(why)
        };
        let mut output = output.lock().map_err(|_| {
            semel_core::Error::new(ErrorKind::Internal, "an earlier write panicked")
        })?;
        let (file, len) = &mut *output;
        file.write_all(&bytes).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        *len += bytes.len() as u64;
        Ok(Mark {
            name: "output".into(),
            value: *len,
        })
    })
}

async fn transfer(from: &EmbeddedStore, to: &Path, limit: usize) -> Result<(), Box<dyn Error>> {
    let to = open(&to.with_extension(limit.to_string()))?;
    let (mut exported, mut imported) = (Spent::default(), Spent::default());
    let (mut count, mut after) = (0, None::<Bytes>);
    loop {
        let begun = begin();
        let page = from.export(after.as_deref(), limit).await?;
        exported.add(Spent::since(begun));
        count += page.items.len() as u64;
        let begun = begin();
        let new = to.import(page.items.as_slice().into()).await?;
        imported.add(Spent::since(begun));
        assert_eq!(new.len(), page.items.len());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    report(&format!("export, pages of {limit}"), count, exported);
    report(&format!("import, batches of {limit}"), count, imported);
    Ok(())
}

/// Lines of 100 bytes, half of them new and half repeats of any earlier one.
struct Stream {
    state: u64,
    unique: u64,
}

impl Stream {
    fn line(&mut self) -> Bytes {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let random = self.state >> 20;
        let number = if self.unique == 0 || random.is_multiple_of(2) {
            self.unique += 1;
            self.unique
        } else {
            1 + (random >> 1) % self.unique
        };
        let mut line = vec![b'x'; 100];
        line[..20].copy_from_slice(format!("{number:020}").as_bytes());
        Bytes::from(line)
    }
}

fn open(dir: &Path) -> semel_core::Result<EmbeddedStore> {
    EmbeddedStore::open(dir, Arc::new(RealClock(now())), Options::default())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn report(what: &str, count: u64, Spent { wall, cpu }: Spent) {
    let rate = |taken: Duration| count as f64 / taken.as_secs_f64() / 1e6;
    println!(
        "{what}: {count} in {:.2} s, {:.2} M/s; processor {:.2} s, {:.2} M/s",
        wall.as_secs_f64(),
        rate(wall),
        cpu.as_secs_f64(),
        rate(cpu)
    );
}

/// Time on the clock and on the processor.
#[derive(Clone, Copy, Default)]
struct Spent {
    wall: Duration,
    cpu: Duration,
}

impl Spent {
    fn since(begun: (Instant, Duration)) -> Self {
        Self {
            wall: begun.0.elapsed(),
            cpu: cpu().saturating_sub(begun.1),
        }
    }

    fn add(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}

fn begin() -> (Instant, Duration) {
    (now(), cpu())
}

/// Returns the processor time of this process's threads; threads that ended do not count.
fn cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let nanos = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

struct RealClock(Instant);

impl Clock for RealClock {
    #[expect(clippy::disallowed_methods, reason = "a measurement runs in real time")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement runs in real time")]
fn now() -> Instant {
    Instant::now()
}

const BATCH: usize = 10_000;
