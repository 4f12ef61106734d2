//! `semel completions` and `semel man`, tested with real shells and a real formatter.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::site::{Site, read_all};

/// The names under `Commands:` of a help text, with those below them: `keys`, `keys list`, …
fn commands(site: &Site, above: &str) -> Vec<String> {
    let mut words: Vec<_> = above.split_whitespace().collect();
    words.push("--help");
    let help = site.semel(&words).done().stdout;
    let names = help
        .split_once("Commands:\n")
        .map_or("", |(_, commands)| commands);
    let names = names.lines().take_while(|line| line.starts_with("  "));
    let mut all = Vec::new();
    for line in names {
        let name = line[2..].split(' ').next().unwrap_or_default();
        // A long description continues in deeper lines.
        if name.is_empty() || name == "help" {
            continue;
        }
        let path = format!("{above} {name}").trim_start().to_owned();
        all.extend(commands(site, &path));
        all.push(path);
    }
    all
}

/// Runs a script in a shell; returns its success and its output, or nothing if there is no such shell.
fn shell(program: &str, arguments: &[&str], script: &Path) -> Option<(bool, String)> {
    let child = Command::new(program)
        .args(arguments)
        .arg(script)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("{program}: {error}"),
    };
    let said = read_all(child.stdout.take().expect("a pipe"));
    Some((child.wait().expect("a child").success(), said))
}

fn script(site: &Site, shell: &str) -> String {
    let script = site.semel(&["completions", shell]).done().stdout;
    site.write(shell, &script);
    script
}

/// The completions that bash offers for the last word of `line`.
fn offered(site: &Site, line: &str) -> BTreeSet<String> {
    let query = format!(
        "source ./bash\nCOMP_LINE='{line}'\nCOMP_POINT=${{#COMP_LINE}}\n\
         COMP_WORDS=({line}{})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _semel semel \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        if line.ends_with(' ') { "''" } else { "" }
    );
    site.write("query", query);
    let output = Command::new("bash")
        .arg("query")
        .current_dir(site.path("."))
        .output()
        .expect("bash");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).expect("text");
    said.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let site = Site::new();
    script(&site, "bash");
    let (is_good, _) = shell("bash", &["-n"], &site.path("bash")).expect("bash is needed");
    assert!(is_good, "bash does not understand the script");

    let all = offered(&site, "semel ");
    for command in ["run", "explain", "config", "completions", "man"] {
        assert!(all.contains(command), "{command} in {all:?}");
    }
    assert!(offered(&site, "semel comp").contains("completions"));
    assert!(offered(&site, "semel config ").contains("check"));
    assert!(offered(&site, "semel run --out").contains("--output"));
    assert_eq!(
        offered(&site, "semel run --output "),
        ["table", "json", "jsonl"].map(str::to_owned).into()
    );
    assert_eq!(
        offered(&site, "semel completions "),
        ["bash", "zsh", "fish", "--color", "--help", "-h"]
            .map(str::to_owned)
            .into()
    );
}

#[test]
fn each_script_knows_every_command() {
    let site = Site::new();
    let all = commands(&site, "");
    assert!(all.len() >= 6, "{all:?}");
    for (shell, opening) in [
        ("bash", "_semel() {"),
        ("zsh", "#compdef semel"),
        ("fish", "# Print an optspec"),
    ] {
        let script = script(&site, shell);
        assert!(script.starts_with(opening), "{shell}: {script:.200}");
        for command in &all {
            let name = command.rsplit(' ').next().unwrap_or_default();
            assert!(script.contains(name), "{shell} lacks {command}");
        }
    }
    // Zsh and fish are not installed everywhere; if they are, they read their scripts.
    for (name, arguments) in [("zsh", ["-n"]), ("fish", ["--no-execute"])] {
        if let Some((is_good, _)) = shell(name, &arguments, &site.path(name)) {
            assert!(is_good, "{name} does not understand its script");
        }
    }
}

#[test]
fn an_unknown_shell_is_a_usage_error() {
    let site = Site::new();
    site.semel(&["completions", "tcsh"]).code(2);
    site.semel(&["completions"]).code(2);
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let site = Site::new();
    let all = commands(&site, "");
    let ended = site.semel(&["man", "share/man1"]).done();
    assert_eq!(ended.stdout, "");
    let mut pages = vec!["semel".to_owned()];
    pages.extend(
        all.iter()
            .map(|path| format!("semel-{}", path.replace(' ', "-"))),
    );
    assert!(
        ended
            .stderr
            .starts_with(&format!("{} pages written", pages.len())),
        "{}",
        ended.stderr
    );
    let is_group = |page: &str| {
        pages
            .iter()
            .any(|other| other.starts_with(&format!("{page}-")))
    };
    for page in &pages {
        let text = site.text(&format!("share/man1/{page}.1"));
        let mut sections: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix(".SH "))
            .map(|title| title.trim_matches('"'))
            .collect();
        sections.retain(|title| !["OPTIONS", "SUBCOMMANDS"].contains(title));
        let expected: &[_] = if is_group(page) {
            &["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"]
        } else {
            &[
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "EXAMPLES",
                "EXIT STATUS",
                "SEE ALSO",
            ]
        };
        assert_eq!(sections, expected, "{page}");
        assert!(text.contains(&format!(".TH {page} 1")), "{page}");
    }
    assert_eq!(
        site.semel(&["man"]).done().stdout,
        site.text("share/man1/semel.1")
    );
}

#[test]
fn the_formatter_of_manual_pages_has_nothing_to_complain_of() {
    let site = Site::new();
    site.semel(&["man", "pages"]).done();
    for page in ["semel", "semel-run", "semel-man"] {
        let path = site.path(&format!("pages/{page}.1"));
        let text = site.text(&format!("pages/{page}.1"));
        for line in text.lines().filter(|line| line.starts_with('.')) {
            let macro_name = line.split(' ').next().unwrap_or_default();
            assert!(MACROS.contains(&macro_name), "{page}: {line}");
        }
        let Ok(output) = Command::new("groff")
            .args(["-man", "-Tutf8", "-ww"])
            .arg(&path)
            .output()
        else {
            // Without groff, the check of the macros must suffice.
            continue;
        };
        assert!(output.status.success());
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(complaints, "", "{page}");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("Semel manual"), "{shown}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_an_environment_error() {
    let site = Site::with(&[("file", "")]);
    site.semel(&["man", "file/man1"])
        .code(3)
        .says("error: cannot write to file/man1 [target-unavailable]");
    site.semel(&["man", "/dev/null"]).code(3);
}

/// Every macro that our pages use.
const MACROS: [&str; 14] = [
    ".ie", ".el", ".TH", ".SH", ".TP", ".PP", ".br", ".RS", ".RE", ".IP", ".EX", ".EE", ".B", ".nf",
];
