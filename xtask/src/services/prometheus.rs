//! Prometheus, which scrapes each second what the files in `targets/` beside its data name. A test that needs rules, or
//! nobody else's series, starts one of its own from the same program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Result;

use super::server::{self, Server};

pub(super) static SERVER: Server = Server {
    name: "prometheus",
    program: NAME,
    package: "prometheus",
    find: super::on_path,
    variable: "SEMEL_TEST_PROMETHEUS_URL",
    ports: 1,
    prepare,
    url: |ports| format!("http://127.0.0.1:{}", ports[0]),
    answers,
    finish: |_, _| Ok(()),
    stop: "TERM",
};

/// The variable with the program.
pub(super) const PROGRAM: &str = "SEMEL_TEST_PROMETHEUS_PROGRAM";

const NAME: &str = "prometheus";

/// The program, which is on the path.
pub(super) fn program(_data: &Path) -> PathBuf {
    PathBuf::from(NAME)
}

fn prepare(program: &Path, data: &Path, ports: &[u16]) -> Result<Vec<Command>> {
    fs::create_dir_all(data.join("targets"))?;
    let settings = data.with_extension("yml");
    fs::write(&settings, configuration(data))?;
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={}", settings.display()))
        .arg(format!("--storage.tsdb.path={}", data.join("db").display()))
        .arg("--storage.tsdb.retention.time=1d")
        .arg(format!("--web.listen-address=127.0.0.1:{}", ports[0]));
    Ok(vec![command])
}

/// The configuration: one job, whose targets may come and go while it runs.
fn configuration(data: &Path) -> String {
    let targets = data.join("targets").join("*.json");
    format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: semel\n    file_sd_configs:\n      \
         - files: ['{}']\n        refresh_interval: 1s\n",
        targets.display()
    )
}

/// Returns whether it answers queries.
fn answers(ports: &[u16]) -> bool {
    let ready = b"HTTP/1.0 200";
    let asked = b"GET /-/ready HTTP/1.0\r\n\r\n";
    server::ask(ports[0], asked, ready.len()).is_some_and(|said| said == ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_scrapes_what_a_file_beside_its_data_names() {
        let text = configuration(Path::new("here"));
        assert!(text.contains("files: ['here/targets/*.json']"), "{text}");
    }
}
