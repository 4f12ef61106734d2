//! Makes a module of each example of the library: each by itself would be compiled and linked with every store and
//! broker once more.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

const EXAMPLES: &str = "../semel/examples";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={EXAMPLES}");
    let mut paths = Vec::new();
    for entry in fs::read_dir(EXAMPLES)? {
        paths.push(entry?.path());
    }
    paths.sort();
    let (mut modules, mut arms) = (String::new(), String::new());
    for path in paths {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path
            .file_stem()
            .ok_or("an example without a name")?
            .to_string_lossy();
        modules += &module(&name, &fs::read_to_string(&path)?);
        write!(arms, "\n        {name:?} => {name}::run(),")?;
    }
    let run = format!(
        "/// Runs the example of that name.\nfn run(name: &str) -> ExitCode {{\n    match name {{{arms}\n        \
         _ => panic!(\"there is no example {{name}}\"),\n    }}\n}}\n"
    );
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("examples.rs"), modules + &run)?;
    Ok(())
}

/// The source as a module: what its first lines say of the whole file is said of the module, from outside.
fn module(name: &str, source: &str) -> String {
    let is_head =
        |line: &str| line.is_empty() || line.starts_with("//!") || line.starts_with("#![");
    let (mut head, mut body, mut is_over) = (String::new(), String::new(), false);
    for line in source.lines() {
        is_over |= !is_head(line);
        let part = if is_over { &mut body } else { &mut head };
        *part += &line.replacen(if is_over { "\0" } else { "!" }, "", 1);
        part.push('\n');
    }
    format!(
        "{}\nmod {name} {{\n{body}\n    pub(super) fn run() -> std::process::ExitCode {{\n        \
         std::process::Termination::report(main())\n    }}\n}}\n\n",
        head.trim_end()
    )
}
