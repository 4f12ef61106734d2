//! Every program in `crates/semel/examples/` runs, and prints what it says that it prints.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

const MARK: &str = "\n// prints:\n";

#[test]
fn every_example_prints_what_it_says() {
    let sources = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../semel/examples"));
    let sources = sources.expect("the folder of the examples");
    let mut names = Vec::new();
    for source in sources {
        let path = source.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a source");
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        names.push((name, expected(&text, &path)));
    }
    assert!(names.len() >= 20, "{} examples", names.len());
    let failed: Vec<String> = thread::scope(|scope| {
        let runs = names
            .iter()
            .map(|(name, expected)| scope.spawn(|| run(name, expected)));
        let runs: Vec<_> = runs.collect();
        let failures = runs
            .into_iter()
            .filter_map(|run| run.join().expect("no panic").err());
        failures.collect()
    });
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

#[test]
fn the_first_program_charges_nothing_when_it_is_run_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = || {
        let output = program("first").current_dir(&folder).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let (first, second) = (run(), run());
    assert_eq!(first.lines().count(), 4);
    let deliveries: Vec<_> = first.lines().skip(1).collect();
    assert_eq!(
        second.lines().collect::<Vec<_>>(),
        deliveries,
        "no charge, the same outcomes"
    );
}

/// The lines after the mark, without their slashes.
fn expected(text: &str, path: &Path) -> String {
    let (_, lines) = text
        .split_once(MARK)
        .unwrap_or_else(|| panic!("{} does not say what it prints", path.display()));
    let lines = lines.lines().map(|line| {
        let line = line
            .strip_prefix("//")
            .expect("only comments follow the mark");
        format!("{}\n", line.strip_prefix(' ').unwrap_or(line))
    });
    lines.collect()
}

fn run(name: &str, expected: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|why| why.to_string())?;
    let output = program(name).current_dir(&folder).output();
    let output = output.map_err(|why| format!("{name}: {why}"))?;
    let (printed, said) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if !output.status.success() || printed != expected {
        let status = output.status;
        return Err(format!(
            "{name}: {status}\n--- says\n{expected}--- printed\n{printed}--- and\n{said}"
        ));
    }
    Ok(())
}

/// The program, which is to be that example.
fn program(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel-examples"));
    command.env("SEMEL_EXAMPLE", name);
    command
}
