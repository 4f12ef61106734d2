//! `semel run` in Kafka transactions beside Kafka Streams with `exactly_once_v2` and its state in `RocksDB`:
//! the same records, partitions and keys. Decision 0051 has the rival's settings.
//!
//! Each copies a backlog into a fresh topic, as a fresh group, whose committed offsets show its progress. The
//! time begins when a fifth of the backlog is committed, so that the start, and a virtual machine that warms
//! up, cost neither side anything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use crate::figures::{Figures, timed};
use crate::kafka::{BACKLOG, BATCH, CONFIG, DISTINCT, PARTITIONS, RECORDS, Site};
use crate::process::Process;

type Failure = Box<dyn std::error::Error>;

pub(crate) fn rate() -> crate::Outcome {
    let rival = Rival::build()?;
    let site = Site::new()?;
    let mut measured = SIDES.map(|_| Measured::default());
    for round in 0..ROUNDS {
        for (place, (_, side)) in SIDES.into_iter().enumerate() {
            let name = format!("{round}-{place}");
            run(&site, &rival, side, &name, &mut measured[place])?;
        }
    }
    println!(
        "Kafka to Kafka, each key once, in transactions; {BACKLOG}, one broker on the same machine, {ROUNDS} \
         rounds, each without its first fifth"
    );
    println!(
        "| side | messages/s | ours over it | processor seconds a million | it over ours | memory, GB |"
    );
    println!("|---|---|---|---|---|---|");
    let ours = &measured[0];
    for ((name, _), side) in SIDES.iter().zip(&measured) {
        println!(
            "| {name} | {} | {} | {} | {} | {} |",
            Figures::of(side.rates.clone()),
            Figures::ratios(&ours.rates, &side.rates),
            Figures::of(side.processor.clone()),
            Figures::ratios(&side.processor, &ours.processor),
            Figures::of(side.memory.clone()),
        );
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Side {
    Semel,
    /// The kind of state, threads, the commit interval in milliseconds.
    Streams([&'static str; 3]),
}

const SIDES: [(&str, Side); 3] = [
    ("`semel run`, class streamed", Side::Semel),
    (
        "Kafka Streams, a key-value store",
        Side::Streams(["keyvalue", "2", "100"]),
    ),
    (
        "Kafka Streams, a window store",
        Side::Streams(["window", "2", "100"]),
    ),
];

/// The measurements, round by round.
#[derive(Default)]
struct Measured {
    rates: Vec<f64>,
    processor: Vec<f64>,
    memory: Vec<f64>,
}

fn run(
    site: &Site,
    rival: &Rival,
    whose: Side,
    name: &str,
    measured: &mut Measured,
) -> crate::Outcome {
    let output = format!("{}-out-{name}", site.input);
    let group = format!("{}-group-{name}", site.input);
    site.make(&output)?;
    let folder = site.folder.path().join(name);
    std::fs::create_dir(&folder)?;
    let command = match whose {
        Side::Semel => {
            let config = CONFIG
                .replace("BATCH", &BATCH.to_string())
                .replace("STORE", "url = \"memory:\"\nallow_volatile = true")
                .replace("EFFECT", "class = \"streamed\"")
                .replace("BROKERS", &site.brokers)
                .replace("INPUT", &site.input)
                .replace("OUTPUT", &output)
                .replace("GROUP", &group);
            std::fs::write(folder.join("semel.toml"), config)?;
            let mut command = Command::new(&site.semel);
            command.arg("run").current_dir(&folder);
            command
        }
        Side::Streams(how) => rival.command(
            [&site.brokers, &group, &site.input, &output],
            &folder.join("state"),
            how,
        ),
    };
    let reader = site.consumer(&group)?;
    let mut process = Process::start(command, &folder.join("stderr"))?;
    let mut begun_at = 0;
    process.until(|_| {
        begun_at = committed(site, &reader);
        Ok(begun_at >= i64::from(RECORDS / 5))
    })?;
    let before = process.processor_seconds()?;
    let (taken, done) =
        timed(|| process.until(|_| Ok(committed(site, &reader) >= i64::from(RECORDS))));
    done?;
    let processor = process.processor_seconds()? - before;
    let records = f64::from(RECORDS) - f64::from(i32::try_from(begun_at)?);
    measured.rates.push(records / taken.as_secs_f64());
    measured.processor.push(processor / (records / 1e6));
    measured.memory.push(process.peak_megabytes()? / 1_000.0);
    drop(process);
    check(site, &output)?;
    site.delete(&[&output])
}

/// The position of the group. A broker whose coordinator is not ready yet answers with none.
fn committed(site: &Site, reader: &BaseConsumer) -> i64 {
    site.committed(reader).unwrap_or_default()
}

/// Checks that every key is in the committed output once.
fn check(site: &Site, output: &str) -> crate::Outcome {
    let mut config = site.config();
    config.set("group.id", format!("{output}-check"));
    config.set("isolation.level", "read_committed");
    config.set("enable.partition.eof", "true");
    config.set("fetch.queue.backoff.ms", "5");
    let reader: BaseConsumer = config.create()?;
    let mut places = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        places.add_partition_offset(output, partition, Offset::Beginning)?;
    }
    reader.assign(&places)?;
    let (mut keys, mut records, mut ended) = (BTreeSet::new(), 0_usize, 0);
    while ended < PARTITIONS {
        // Nothing also stands for an event, such as an assignment.
        let mut tries = (0..100).map(|_| reader.poll(PATIENCE / 100));
        match tries.find_map(|polled| polled) {
            Some(Ok(record)) => {
                records += 1;
                keys.insert(record.key().unwrap_or_default().to_vec());
            }
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(error)) => return Err(error.into()),
            None => return Err("the output cannot be read".into()),
        }
    }
    let wanted = usize::try_from(DISTINCT)?;
    if (keys.len(), records) != (wanted, wanted) {
        let found = keys.len();
        return Err(
            format!("{records} records with {found} keys came out, not {wanted} each").into(),
        );
    }
    Ok(())
}

/// Kafka Streams, compiled here from `bench/rivals`.
struct Rival {
    classes: String,
}

impl Rival {
    /// Builds it. Needs Java's compiler (Debian: default-jdk-headless) and Maven, which knows where jars come
    /// from.
    fn build() -> Result<Self, Failure> {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
        let home = std::env::var_os("CARGO_TARGET_DIR");
        let home = home.map_or_else(|| bench.join("../target"), PathBuf::from);
        let home = home.join("rival-kafka-streams");
        let jars = home.join(format!("jars-{VERSION}"));
        if !jars.is_dir() {
            std::fs::create_dir_all(&home)?;
            let pom = home.join("pom.xml");
            std::fs::write(&pom, POM.replace("VERSION", VERSION))?;
            // A half-filled folder would be taken for a complete one.
            let fresh = home.join("fresh");
            let _ = std::fs::remove_dir_all(&fresh);
            let mut fetch = Command::new("mvn");
            fetch.args(["--batch-mode", "--quiet", "--file"]).arg(pom);
            fetch
                .arg(COPY)
                .arg(format!("-DoutputDirectory={}", fresh.display()));
            done(fetch)?;
            std::fs::rename(fresh, &jars)?;
        }
        let jars = jars.join("*").display().to_string();
        let mut compile = Command::new("javac");
        compile.args(["-cp", &jars, "-d"]).arg(&home);
        compile.arg(bench.join("rivals/KeepFirst.java"));
        done(compile)?;
        let classes = format!("{}:{jars}", home.display());
        Ok(Self { classes })
    }

    fn command(&self, topics: [&str; 4], state: &Path, how: [&str; 3]) -> Command {
        let mut command = Command::new("java");
        command
            .args(JAVA)
            .args(["-cp", &self.classes, "KeepFirst"])
            .args(topics)
            .arg(state)
            .args(how);
        command
    }
}

fn done(mut command: Command) -> crate::Outcome {
    let program = command.get_program().display().to_string();
    let status = command.status();
    let status = status.map_err(|error| format!("{program}: {error}"))?;
    if !status.success() {
        return Err(format!("{program}: {status}").into());
    }
    Ok(())
}

const VERSION: &str = "4.1.0";
const POM: &str = "<project><modelVersion>4.0.0</modelVersion><groupId>semel</groupId><artifactId>rival</artifactId>
<version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>VERSION</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
";
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
/// The heap holds the cache of 256 MiB over the stores; `RocksDB`'s memory comes on top of it.
const JAVA: [&str; 3] = [
    "-Xms1g",
    "-Xmx1g",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];
const ROUNDS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(30);
