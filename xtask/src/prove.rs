//! `cargo xtask prove`: runs the tiers of proof, and keeps their results for the book.

pub(crate) mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::builds::Profile;
use crate::failure::{Failure, Result};
use crate::services::Borrowed;
use crate::workspace::Workspace;
use crate::{builds, process};

use self::page::Kept;

/// Runs the tiers that `words` ask for; except for two of them, the package `proof` interprets the
/// words.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result {
    if words == ["--page"] {
        return write_page(workspace);
    }
    let keep = words.contains(&"--keep");
    let words: Vec<&str> = words.iter().copied().filter(|it| *it != "--keep").collect();
    // Checked now, and not after hours.
    if keep && let Some(changed) = changed(workspace)? {
        return Err(Failure::no(format!(
            "what is kept belongs to a commit, and {changed} is not committed"
        )));
    }
    let mut builds = vec![builds::proof(workspace)];
    if wants(&words, ON_THE_BINARY) {
        builds.push(builds::binary(workspace));
    }
    for mut build in builds {
        if !build.status()?.success() {
            return Err(Failure::no("the release build fails"));
        }
    }
    let prove =
        |servers: &Borrowed| tried(&mut proof(workspace, Profile::Release, servers, &words)?);
    match servers(&words) {
        Some(names) => Borrowed::beside(workspace, names, prove)?,
        None => prove(&Borrowed::none(workspace))?,
    }
    if keep {
        for report in reports(workspace)? {
            self::keep(workspace, &report)?;
        }
        write_page(workspace)?;
    }
    Ok(())
}

/// The proof, ready to run with `words`; removes the reports of an earlier run.
pub(crate) fn proof(
    workspace: &Workspace,
    profile: Profile,
    servers: &Borrowed,
    words: &[&str],
) -> Result<Command> {
    for report in reports(workspace)? {
        fs::remove_file(report)?;
    }
    let mut command = Command::new(profile.folder(workspace).join("proof"));
    command
        .current_dir(&workspace.root)
        .args(words)
        .arg("--json")
        .arg(written(workspace))
        .env("SEMEL_BIN", profile.semel(workspace));
    servers.lend(&mut command);
    Ok(command)
}

/// The reports that the last run of the proof wrote.
pub(crate) fn reports(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    json(&written(workspace))
}

fn tried(command: &mut Command) -> Result {
    ended(command.status()?)
}

/// The meaning of the proof's exit code.
fn ended(status: ExitStatus) -> Result {
    match status.code() {
        Some(0) => Ok(()),
        Some(2) => Err(Failure::usage("nothing was tried")),
        Some(_) | None => Err(Failure::no(format!("the proof does not stand: {status}"))),
    }
}

/// Returns whether `tier` is asked for; without a name, all are.
fn wants(words: &[&str], tier: &str) -> bool {
    words.contains(&tier) || !words.iter().any(|word| word.starts_with('T'))
}

/// The servers that a requested tier uses, all of them if none is named; `None` if none does.
fn servers(words: &[&str]) -> Option<&'static [&'static str]> {
    let is_more = words.contains(&"--seeds") || words.contains(&"--minutes") || {
        let only = words.windows(2).find(|pair| pair[0] == "--only");
        let mut bugs = only.into_iter().flat_map(|pair| pair[1].split(','));
        bugs.any(|bug| BUGS_ON_SERVERS.iter().any(|name| bug.starts_with(name)))
    };
    let any = |on: &[On]| {
        let mut on = on.iter();
        on.any(|on| wants(words, on.tier) && (is_more || !on.later))
    };
    match (any(ON_ALL), any(ON_STORES), any(ON_SOME)) {
        (true, ..) | (_, true, true) => Some(&[]),
        (false, true, false) => Some(STORES),
        (false, false, true) => Some(SOME),
        (false, false, false) => None,
    }
}

/// The uncommitted changes, except for kept results: tier after tier may be kept before one commit.
fn changed(workspace: &Workspace) -> Result<Option<String>> {
    let mut git = Command::new("git");
    git.current_dir(&workspace.root)
        .args(["status", "--porcelain", "--untracked-files=no", "--", "."])
        .arg(format!(":!{}", page::KEPT))
        .arg(format!(":!{}", page::PAGE));
    let said = process::capture(&mut git)?;
    let first = said.lines().next();
    Ok(first.map(|line| line.get(3..).unwrap_or(line).to_owned()))
}

/// Copies one report to the kept ones, unless it has faults.
fn keep(workspace: &Workspace, path: &Path) -> Result {
    let text = fs::read_to_string(path)?;
    let kept = Kept::read(&text).map_err(|why| refused(path, &why))?;
    if let Some(fault) = kept.faults().first() {
        return Err(refused(path, fault));
    }
    let folder = workspace.root.join(page::KEPT);
    fs::create_dir_all(&folder)?;
    let kept = folder.join(format!("{}.json", kept.tier));
    fs::write(&kept, text)?;
    println!("kept: {}", workspace.relative(&kept));
    Ok(())
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::no(format!("{} is not kept: {why}", path.display()))
}

/// Writes the book's page from all kept results.
fn write_page(workspace: &Workspace) -> Result {
    let mut kept = Vec::new();
    for path in json(&workspace.root.join(page::KEPT))? {
        let text = fs::read_to_string(&path)?;
        kept.push(Kept::read(&text).map_err(|why| refused(&path, &why))?);
    }
    let path = workspace.root.join(page::PAGE);
    let page = page::with(&fs::read_to_string(&path)?, kept).map_err(Failure::environment)?;
    fs::write(&path, page)?;
    println!("written: {}", page::PAGE);
    Ok(())
}

/// The folder in which the proof writes its reports.
fn written(workspace: &Workspace) -> PathBuf {
    workspace.target.join("proof")
}

/// The reports in `folder`, which may be missing.
fn json(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The tier that tests the binary.
const ON_THE_BINARY: &str = "T8";
/// A tier that tests code that runs on servers.
struct On {
    tier: &'static str,
    /// True if it needs them only for more effort than that of a merge.
    later: bool,
}

const fn on(tier: &'static str, later: bool) -> On {
    On { tier, later }
}

/// Those that test stores alone, which need no broker.
const ON_STORES: &[On] = &[on("T5", false), on("T7", true)];
const ON_ALL: &[On] = &[on("T8", false)];
const ON_SOME: &[On] = &[on("T14", true)];
/// The servers of the stores.
const STORES: &[&str] = &["postgres", "mariadb", "redis"];
/// Those whose tests see bugs of T14.
const SOME: &[&str] = &["postgres", "kafka", "rabbitmq"];
/// The beginnings of the names of those bugs.
const BUGS_ON_SERVERS: &[&str] = &["K", "M28", "M31", "M36"];

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn workspace(name: &str) -> Workspace {
        let root = std::env::temp_dir().join(format!("xtask-prove-{}-{name}", std::process::id()));
        fs::create_dir_all(root.join("target/proof")).expect("a folder for the test");
        Workspace {
            target: root.join("target"),
            root,
            metadata: serde_json::Value::Null,
        }
    }

    #[test]
    fn servers_are_had_for_those_tiers_that_try_them() {
        let all: Option<&[&str]> = Some(&[]);
        assert_eq!(servers(&[]), all);
        assert_eq!(servers(&["T1", "T5", "--seeds", "9"]), Some(STORES));
        assert_eq!(servers(&["T5", "T8"]), all);
        assert_eq!(servers(&["T1", "--minutes", "5"]), None);
        for (tier, on) in [("T7", Some(STORES)), ("T14", Some(SOME))] {
            assert_eq!(servers(&[tier]), None);
            assert_eq!(servers(&[tier, "--seeds", "99"]), on);
        }
        assert_eq!(servers(&["T7", "T14", "--seeds", "99"]), all);
        assert_eq!(servers(&["T14", "--only", "M07,M31"]), Some(SOME));
        assert_eq!(servers(&["T14", "--only", "M07"]), None);
    }

    #[test]
    fn how_the_proof_ended_is_told_by_its_exit_code() {
        let exit = |code: i32| ended(ExitStatus::from_raw(code << 8)).map_err(|f| f.exit_code());
        assert_eq!(exit(0), Ok(()));
        assert_eq!(exit(1), Err(1.into()));
        assert_eq!(exit(2), Err(2.into()));
    }

    #[test]
    fn only_a_report_that_stands_is_kept() {
        let workspace = workspace("keep");
        let path = workspace.target.join("proof/T1.json");
        let kept = workspace.root.join("proof/results/T1.json");
        for (report, stands) in [
            (page::tests::report(r#""lost": 1"#), false),
            (
                page::tests::report(r#""lost": 0"#).replace("0123", "0123-dirty"),
                false,
            ),
            (page::tests::report(r#""lost": 0"#), true),
        ] {
            fs::write(&path, report).expect("a report");
            assert_eq!(keep(&workspace, &path).is_ok(), stands);
            assert_eq!(kept.is_file(), stands);
        }
        assert_eq!(
            json(&workspace.root.join("nowhere")).expect("none"),
            [""; 0].map(PathBuf::from)
        );
        fs::remove_dir_all(&workspace.root).expect("the folder of the test");
    }

    #[test]
    fn a_run_begins_without_the_reports_of_the_last() {
        let workspace = workspace("fresh");
        fs::write(workspace.target.join("proof/T9.json"), "{}").expect("a report");
        let servers = Borrowed::none(&workspace);
        let command = proof(&workspace, Profile::Dev, &servers, &["T1"]).expect("a command");
        assert_eq!(command.get_program(), workspace.target.join("debug/proof"));
        assert!(reports(&workspace).expect("the folder").is_empty());
        let args: Vec<_> = command.get_args().collect();
        assert_eq!((args[0], args[1]), ("T1".as_ref(), "--json".as_ref()));
        fs::remove_dir_all(&workspace.root).expect("the folder of the test");
    }
}
