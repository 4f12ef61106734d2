//! `semel man`: manual pages from the same source as `--help`.

use std::io::Write;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::roff::{Roff, bold, roman};
use semel_core::{Code, Error, ErrorKind, Result};

use crate::args::{Arguments, Man};
use crate::output::Stream;
use crate::{Exit, output};

/// Writes a page per command into a folder, or prints the main page.
pub(crate) fn man(arguments: &Man) -> Result<Exit> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    if let Some(dir) = &arguments.dir {
        std::fs::create_dir_all(dir).map_err(|error| cannot_write(dir, error))?;
        let count = write_pages(&command, &mut Vec::new(), dir)?;
        output::note(format_args!("{count} pages written to {}", dir.display()));
        return Ok(Exit::Done);
    }
    let mut stdout = Stream::stdout();
    if stdout.write(&page(&command, &[])?)?.is_continue() {
        let _ = stdout.flush()?;
    }
    Ok(Exit::Done)
}

/// Writes the page of `command`, which stands under `above`, and those of its subcommands; returns their
/// number.
fn write_pages(command: &Command, above: &mut Vec<String>, dir: &Path) -> Result<u64> {
    let path = dir.join(format!("{}.1", name(command)));
    std::fs::write(&path, page(command, above)?).map_err(|error| cannot_write(&path, error))?;
    let mut count = 1;
    above.push(name(command));
    for subcommand in visible(command) {
        count += write_pages(subcommand, above, dir)?;
    }
    above.pop();
    Ok(count)
}

/// Renders the page of one command.
fn page(command: &Command, above: &[String]) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    render(command, above, &mut page).map_err(|error| {
        Error::new(ErrorKind::Internal, "cannot write a manual page").with_source(error)
    })?;
    Ok(page)
}

fn render(command: &Command, above: &[String], page: &mut Vec<u8>) -> std::io::Result<()> {
    let man = clap_mangen::Man::new(command.clone())
        .source(concat!("Semel ", env!("CARGO_PKG_VERSION")))
        .manual("Semel manual");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    if command
        .get_arguments()
        .any(|argument| !argument.is_hide_set())
    {
        man.render_options_section(page)?;
    }
    if visible(command).next().is_some() {
        man.render_subcommands_section(page)?;
    }
    if let Some(after) = command.get_after_help() {
        examples(&after.to_string()).to_writer(page)?;
    }
    exit_status().to_writer(page)?;
    see_also(command, above).to_writer(page)?;
    page.flush()
}

/// Renders the text that stands under `--help`, its lines as they are.
fn examples(after: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for line in after.lines() {
        match line.strip_prefix("  ") {
            Some(typed) => {
                roff.control("EX", []);
                roff.text([roman(typed)]);
                roff.control("EE", []);
            }
            None if line.starts_with("Example") => {}
            None => {
                roff.control("PP", []);
                roff.text([roman(line)]);
            }
        }
    }
    roff
}

fn exit_status() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in EXITS {
        roff.control("TP", []);
        roff.text([bold(code)]);
        roff.text([roman(meaning)]);
    }
    roff
}

fn see_also(command: &Command, above: &[String]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let pages: Vec<_> = above
        .iter()
        .cloned()
        .chain(visible(command).map(name))
        .collect();
    let mut text = Vec::new();
    for (at, page) in pages.iter().enumerate() {
        text.push(roman(if at > 0 { ", " } else { "" }));
        text.push(bold(page.clone()));
        text.push(roman("(1)"));
    }
    roff.text(text);
    roff
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
}

/// Returns a command's name in full: `semel-keys-list`.
fn name(command: &Command) -> String {
    let name = command.get_display_name();
    name.unwrap_or_else(|| command.get_name()).to_owned()
}

fn cannot_write(path: &Path, error: std::io::Error) -> Error {
    let message = format!("cannot write to {}", path.display());
    Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::TargetUnavailable)
        .with_source(error)
}

/// The exit codes and their meaning.
const EXITS: [(&str, &str); 5] = [
    (
        "0",
        "Done. Messages set aside and a reader that had enough are no failure.",
    ),
    (
        "1",
        "The answer is no: a check fails, a key or a code is unknown, --yes is missing.",
    ),
    ("2", "The command line or the configuration is wrong."),
    ("3", "A store, source, target or folder is not available."),
    ("70", "A defect of Semel."),
];
