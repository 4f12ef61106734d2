//! Apache Kafka: one broker that is its own controller, made anew at every start, because the quorum
//! remembers its ports, and those change. Debian has no package of it: its jars come from Maven
//! Central, once.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::process;

use super::server::{self, Server};

pub(super) static SERVER: Server = Server {
    name: "kafka",
    program: "java",
    // It depends on a Java that runs without a screen, and so installs one.
    package: FETCHER_PACKAGE,
    find,
    variable: "SEMEL_TEST_KAFKA_URL",
    // The second one is the controller's.
    ports: 2,
    prepare,
    url: |ports| format!("127.0.0.1:{}", ports[0]),
    answers,
    finish: |_, _| Ok(()),
    stop: "TERM",
};

/// The variable with the folder of the jars, for tests that start a broker of their own:
/// `java -cp 'FOLDER/*' kafka.Kafka FILE`.
pub(super) const JARS: &str = "SEMEL_TEST_KAFKA_JARS";

/// The program that fetches the jars, and the package that contains it.
const FETCHER: &str = "mvn";
const FETCHER_PACKAGE: &str = "maven";
/// The goal of its plugin that does it.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

const VERSION: &str = "4.1.0";
/// Group, artifact and version; their dependencies are included. The tools contain the commands for
/// topics and groups, the last one a log.
const WANTED: [[&str; 3]; 3] = [
    ["org.apache.kafka", "kafka_2.13", VERSION],
    ["org.apache.kafka", "kafka-tools", VERSION],
    ["org.slf4j", "slf4j-simple", "1.7.36"],
];

/// Any 16 bytes, as the broker writes them.
const CLUSTER: &str = "c2VtZWwgdGVzdHMga2Fmaw";

fn find(program: &str) -> Option<PathBuf> {
    super::on_path(FETCHER)?;
    super::on_path(program)
}

/// The folder of the jars, beside `data`: another version has another folder.
pub(super) fn jars(data: &Path) -> PathBuf {
    data.with_extension(format!("jars-{VERSION}"))
}

fn prepare(program: &Path, data: &Path, ports: &[u16]) -> Result<Vec<Command>> {
    let jars = jars(data);
    if !jars.is_dir() {
        fetch(data, &jars)?;
    }
    fs::remove_dir_all(data)?;
    fs::create_dir_all(data)?;
    let settings = data.with_extension("properties");
    fs::write(&settings, properties(data, ports))?;
    let mut format = Command::new(program);
    format
        .args(java_args(&jars))
        .args(["kafka.tools.StorageTool", "format", "--standalone"])
        .args(["--cluster-id", CLUSTER, "--config"])
        .arg(&settings);
    process::log(&mut format, &data.with_extension("format.log"))?;
    let broker = |archive: String| {
        let mut command = Command::new(program);
        command.arg(archive).args(java_args(&jars));
        command.arg("kafka.Kafka").arg(&settings).current_dir(data);
        command
    };
    let archive = classes(&jars);
    if !archive.is_file() {
        let fresh = data.with_extension("fresh.jsa");
        let command = broker(format!("-XX:ArchiveClassesAtExit={}", fresh.display()));
        serve_once(command, &data.with_extension("classes.log"), ports)?;
        // A half-written one would be taken for a complete one.
        fs::rename(&fresh, &archive)?;
    }
    Ok(vec![broker(format!(
        "-XX:SharedArchiveFile={}",
        archive.display()
    ))])
}

/// The classes that a broker loads, parsed: with them, a start takes Java half the time. Tests name this file to every
/// Java that they start; one that cannot use it does without.
fn classes(jars: &Path) -> PathBuf {
    let mut name = jars.as_os_str().to_owned();
    name.push(".jsa");
    name.into()
}

/// Starts a broker, and ends it once it serves.
fn serve_once(mut broker: Command, log: &Path, ports: &[u16]) -> Result {
    let file = File::create(log)?;
    let mut child = broker.stdout(file.try_clone()?).stderr(file).spawn()?;
    let serves = server::wait(|| answers(ports));
    Command::new("kill").arg(child.id().to_string()).status()?;
    child.wait()?;
    if serves {
        return Ok(());
    }
    Err(Failure::environment(format!(
        "kafka does not serve; its output is in {}",
        log.display()
    )))
}

/// Downloads the jars; `jars` is there only when all of them are.
fn fetch(data: &Path, jars: &Path) -> Result {
    // A half-filled folder would be taken for a complete one.
    let fresh = data.with_extension("fresh");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    let wanted = data.with_extension("pom.xml");
    fs::write(&wanted, pom())?;
    let mut copy = Command::new(FETCHER);
    copy.args(["--batch-mode", "--file"])
        .arg(&wanted)
        .arg(COPY)
        .arg(format!("-DoutputDirectory={}", fresh.display()));
    process::log(&mut copy, &data.with_extension("fetch.log"))?;
    Ok(fs::rename(&fresh, jars)?)
}

fn pom() -> String {
    let wanted = WANTED.map(|[group, artifact, version]| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>\n"
        )
    });
    format!(
        "<project>\n<modelVersion>4.0.0</modelVersion>\n<groupId>semel</groupId>\
         <artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>\n\
         <dependencies>\n{}</dependencies>\n</project>\n",
        wanted.concat()
    )
}

/// The arguments of Java before the class to run, with settings for a quick start.
fn java_args(jars: &Path) -> Vec<OsString> {
    let mut args = [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xmx512m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
    ]
    .map(OsString::from)
    .to_vec();
    // Java itself reads this as all of them.
    args.push(jars.join("*").into());
    args
}

/// The settings for a broker without others, and those that keep the tests honest and quick: no
/// topic is created by itself, the internal ones are small, and the first member of a group waits
/// for no others.
const SETTINGS: &str = "\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
";

fn properties(data: &Path, ports: &[u16]) -> String {
    let [broker, controller] = [ports[0], ports[1]];
    format!(
        "{SETTINGS}\
         controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n\
         listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{broker}\n\
         log.dirs={}\n",
        data.display()
    )
}

/// The request for the brokers, and for none of the topics: the length of the rest, `Metadata` in
/// version 1, number 7 of this client without a name, an array of no topics.
const WHO: &[u8] = b"\0\0\0\x0e\0\x03\0\x01\0\0\0\x07\xff\xff\0\0\0\0";

/// Returns whether the controller lets the broker serve: a broker that may not is missing in the
/// answer.
fn answers(ports: &[u16]) -> bool {
    // The length of the rest, the number, the count of brokers.
    let said = server::ask(ports[0], WHO, 12);
    said.is_some_and(|said| said[4..] == [0, 0, 0, 7, 0, 0, 0, 1])
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn data(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("xtask-kafka-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_broker_is_told_its_ports_and_its_folder() {
        let told = properties(Path::new("/data"), &[1, 2]);
        for line in [
            "listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
            "controller.quorum.bootstrap.servers=127.0.0.1:2",
            "log.dirs=/data",
            "auto.create.topics.enable=false",
        ] {
            assert!(told.lines().any(|told| told == line), "{line}: {told}");
        }
        assert_eq!((SERVER.url)(&[1, 2]), "127.0.0.1:1");
    }

    #[test]
    fn jars_are_asked_for_by_group_artifact_and_version() {
        let pom = pom();
        assert_eq!(pom.matches("<dependency>").count(), WANTED.len());
        let tools = "<dependency><groupId>org.apache.kafka</groupId>\
                     <artifactId>kafka-tools</artifactId><version>4.1.0</version></dependency>";
        assert!(pom.contains(tools), "{pom}");
    }

    #[test]
    fn jars_that_are_there_are_not_fetched_and_the_data_is_new() {
        let data = data("fresh");
        let jars = jars(&data);
        fs::create_dir_all(&jars).expect("created");
        fs::create_dir_all(&data).expect("created");
        fs::write(data.join("old"), "").expect("written");
        fs::write(classes(&jars), "").expect("written");
        let commands = prepare(Path::new("true"), &data, &[1, 2]).expect("prepared");
        let last: Vec<_> = commands[0]
            .get_args()
            .filter_map(|arg| arg.to_str())
            .collect();
        let settings = data.with_extension("properties");
        assert_eq!(commands.len(), 1);
        let archive = format!("-XX:SharedArchiveFile={}.jsa", jars.display());
        assert_eq!(last[0], archive);
        assert_eq!(last[5..7], ["-cp", &jars.join("*").display().to_string()]);
        assert_eq!(last[7..], ["kafka.Kafka", &settings.display().to_string()]);
        assert!(!data.join("old").exists());
        assert!(!data.with_extension("fetch.log").exists());
        fs::remove_dir_all(&data).expect("removed");
        fs::remove_dir_all(&jars).expect("removed");
        fs::remove_file(classes(&jars)).expect("removed");
        for left in ["properties", "format.log"] {
            fs::remove_file(data.with_extension(left)).expect("removed");
        }
    }

    /// Returns whether a server that was asked once and sent `answer` counts as up.
    fn after(answer: &'static [u8]) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let asked = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            let mut question = [0; WHO.len()];
            stream.read_exact(&mut question).expect("a whole question");
            stream.write_all(answer).expect("heard");
            question
        });
        let answered = answers(&[port]);
        assert_eq!(asked.join().expect("it was asked"), WHO);
        answered
    }

    #[test]
    fn a_broker_that_the_controller_does_not_name_is_not_up() {
        assert!(after(b"\0\0\0\x40\0\0\0\x07\0\0\0\x01and more"));
        assert!(!after(b"\0\0\0\x40\0\0\0\x07\0\0\0\0and more"));
        assert!(!after(b"\0\0\0\x40\0\0\0\x08\0\0\0\x01and more"));
        assert!(!after(b"\0\0\0\x04"));
    }
}
