//! The proof in place of the compiler: cargo has it compile the packages of the workspace, and it builds the bug into
//! one of them. Nothing else is compiled anew for a bug, and not into another folder: what depends on the variable
//! says so in the way of `option_env!`, so that cargo takes nothing for fresh that has another bug in it.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Set where the proof is to be the compiler.
pub(super) const STANDS_IN: &str = "SEMEL_PROOF_COMPILES";

/// The variable that names the bug of a package.
pub(super) fn variable(package: &str) -> String {
    format!("SEMEL_PLANTED_{}", package.replace('-', "_"))
}

/// Compiles, if that is what this process is for: the first word is the compiler, the rest is for it.
pub(crate) fn stand_in() -> Option<ExitCode> {
    std::env::var_os(STANDS_IN)?;
    let mut words = std::env::args_os().skip(1);
    let compiler = words.next()?;
    let words: Vec<OsString> = words.collect();
    let mut command = Command::new(compiler);
    command.args(&words);
    // Of no package, when cargo asks for the version.
    let variable = std::env::var("CARGO_PKG_NAME").ok().map(|it| variable(&it));
    let bug = variable.as_ref().and_then(|it| std::env::var(it).ok());
    if let Some(bug) = &bug {
        command.arg("--cfg").arg(format!("semel_planted=\"{bug}\""));
    }
    let is_done = command.status().is_ok_and(|status| status.success());
    let told = match (variable, dependencies(&words)) {
        (Some(variable), Some(path)) if is_done => tell(&path, &variable, bug.as_deref()),
        _ => Ok(()),
    };
    Some(if is_done && told.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Where the compiler writes what the crate depends on.
fn dependencies(words: &[OsString]) -> Option<PathBuf> {
    let after = |name: &str| {
        let mut pairs = words.windows(2);
        pairs.find(|pair| pair[0] == name).map(|pair| &pair[1])
    };
    let extra = words
        .iter()
        .find_map(|word| word.to_str()?.strip_prefix("extra-filename="));
    let mut name = after("--crate-name")?.clone();
    name.push(extra.unwrap_or_default());
    name.push(".d");
    Some(Path::new(after("--out-dir")?).join(name))
}

/// Adds to what the crate depends on; a crate that writes no such file is never fresh.
fn tell(path: &Path, variable: &str, bug: Option<&str>) -> std::io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let value = bug.map(|bug| format!("={bug}")).unwrap_or_default();
    let mut file = fs::OpenOptions::new().append(true).open(path)?;
    writeln!(file, "\n# env-dep:{variable}{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_with_what_a_crate_depends_on_is_found() {
        let line = "--crate-name semel_core --edition=2024 lib.rs --emit=dep-info,link -C metadata=1 \
                    -C extra-filename=-1f --out-dir /t/deps -L dependency=/t/deps";
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let expected = Some(PathBuf::from("/t/deps/semel_core-1f.d"));
        assert_eq!(dependencies(&words), expected);
        assert_eq!(dependencies(&["-vV".into()]), None);
    }

    #[test]
    fn a_crate_depends_on_the_bug_of_its_package_and_on_there_being_none() {
        let path = std::env::temp_dir().join(format!("semel-proof-{}.d", std::process::id()));
        fs::write(&path, "a.rlib: a.rs\n").expect("a file for the test");
        let variable = variable("semel-core");
        tell(&path, &variable, Some("M10")).expect("it is there");
        tell(&path, &variable, None).expect("it is there");
        let text = fs::read_to_string(&path).expect("it is there");
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        let expected = [
            "# env-dep:SEMEL_PLANTED_semel_core=M10",
            "# env-dep:SEMEL_PLANTED_semel_core",
        ];
        assert_eq!(lines, expected);
        fs::remove_file(path).expect("the file of the test");
    }
}
