//! Compares the complete reference in the book, `reference/config.toml`, with the settings in the code.

use std::collections::BTreeSet;

use semel_core::Code;

use super::all_backends::ALL_BACKENDS;
use super::settings::{Overrides, Settings};
use super::show::{Effective, Shown, join};
use super::{Fault, REFERENCE};

#[test]
fn the_reference_is_a_sound_configuration() {
    let faults = read(REFERENCE).1;
    assert_eq!(faults, [], "as it is");
    let (_, faults) = read(&full(&lines(), None, None));
    assert!(
        matches!(&*faults, [fault] if fault.path == "pipelines.ledger.effect.kind"),
        "with every default written out, sql wants another store and nothing else: {faults:?}"
    );
}

#[test]
fn the_reference_states_every_default() {
    let lines = lines();
    let (stated, faults) = read(&full(&lines, None, None));
    for (at, line) in lines.iter().enumerate() {
        let Some(path) = line.path.as_ref().filter(|_| line.kind != Kind::Example) else {
            continue;
        };
        let (without, more) = read(&full(&lines, Some(at), None));
        let is_new = |fault: &&Fault| faults.iter().all(|known| known.message != fault.message);
        let is_required = more.iter().any(|fault| is_new(&fault));
        assert_eq!(
            is_required,
            line.kind == Kind::Written || !stands_alone(path),
            "whether {path} must be written: {more:?}"
        );
        if !is_required {
            assert_eq!(
                without.value(path),
                stated.value(path),
                "the default of {path}"
            );
        }
    }
}

#[test]
fn the_reference_has_every_setting_and_no_other() {
    let lines = lines();
    let mut known = BTreeSet::new();
    let mut written = BTreeSet::new();
    let examples = (0..lines.len()).filter(|&at| lines[at].kind == Kind::Example);
    for example in std::iter::once(None).chain(examples.map(Some)) {
        let text = full(&lines, None, example);
        let table: toml::Table = toml::from_str(&text).expect("the reference is TOML");
        leaves(&table, &[], &mut |path| written.extend(named(path, &table)));
        // Some settings exist for one class only.
        for text in [text.replace("\"unkeyed\"", "\"keyed\""), text] {
            let (effective, faults) = read(&text);
            let unknown = faults
                .iter()
                .find(|fault| fault.code == Code::ConfigUnknownKey);
            assert_eq!(unknown, None);
            for (path, _) in effective.paths() {
                known.extend(named(&path, &table));
            }
        }
    }
    assert_eq!(written, known);
}

/// Names a setting by its owner: the whole file, any pipeline, a kind of source or of effect.
fn named(path: &[String], file: &toml::Table) -> Option<String> {
    if let [gateway, routes, _, rest @ ..] = path
        && (&**gateway, &**routes) == ("gateway", "routes")
    {
        // A route has what the gateway has for all routes, and its path.
        let [name] = rest else {
            return None;
        };
        let is_path = name == "path";
        return Some(format!("gateway.{}", if is_path { "routes" } else { name }));
    }
    let [pipelines, pipeline, rest @ ..] = path else {
        return Some(join(path));
    };
    if pipelines != "pipelines" {
        return Some(join(path));
    }
    let [part, inner @ ..] = rest else {
        return None;
    };
    let kind = file["pipelines"][pipeline]
        .get(part)
        .and_then(|part| part.get("kind")?.as_str());
    Some(match kind {
        Some(kind) => format!("{part} {kind}: {}", join(inner)),
        None => join(rest),
    })
}

#[derive(Debug)]
struct Line {
    kind: Kind,
    /// The line without its comment mark.
    text: &'static str,
    /// The setting that the line is about.
    path: Option<String>,
    /// The table that the line opens or is in.
    table: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Prose,
    Written,
    Default,
    /// A setting without a default.
    Example,
}

fn lines() -> Vec<Line> {
    let mut table = String::new();
    let line = |line: &'static str| {
        let bare = line.strip_prefix('#').filter(|rest| !rest.starts_with(' '));
        let (kind, text) = match bare {
            Some("") => (Kind::Prose, ""),
            Some(bare) if bare.ends_with("# not set") => (Kind::Example, bare),
            Some(bare) => (Kind::Default, bare),
            None if line.is_empty() || line.starts_with('#') => (Kind::Prose, line),
            None => (Kind::Written, line),
        };
        if let Some(header) = text.strip_prefix('[') {
            let end = header.find(']').expect("the end of a header");
            header[..end].clone_into(&mut table);
        }
        let name = text.split_once(" = ").map(|(name, _)| name);
        let path = name.filter(|_| kind != Kind::Prose).map(|name| {
            let dot = if table.is_empty() { "" } else { "." };
            format!("{table}{dot}{name}")
        });
        let table = table.clone();
        Line {
            kind,
            text,
            path,
            table,
        }
    };
    REFERENCE.lines().map(line).collect()
}

/// Tells whether the reference works without this setting. The pipeline that is commented out as a whole needs
/// some of its settings.
fn stands_alone(path: &str) -> bool {
    let required = ["source", "key", "effect.kind", "effect.statement"];
    let of_ledger = path.strip_prefix("pipelines.ledger.");
    !of_ledger.is_some_and(|name| required.contains(&name))
}

/// Returns the text with every default written out, without one line, with one example and the header above it.
fn full(lines: &[Line], without: Option<usize>, example: Option<usize>) -> String {
    let kept = lines
        .iter()
        .enumerate()
        .filter(|(at, line)| match line.kind {
            Kind::Prose => false,
            Kind::Written | Kind::Default => Some(*at) != without,
            Kind::Example => example.is_some_and(|example| {
                let is_its_header = line.path.is_none() && line.table == lines[example].table;
                *at == example || is_its_header
            }),
        });
    kept.fold(String::new(), |text, (_, line)| text + line.text + "\n")
}

fn read(text: &str) -> (Effective, Vec<Fault>) {
    let overrides = Overrides::default();
    let read = Settings::parts(
        "config.toml",
        text,
        std::iter::empty(),
        &overrides,
        ALL_BACKENDS,
    );
    let (_, effective, faults) = read.expect("the reference is TOML");
    (effective, faults)
}

fn leaves(table: &toml::Table, path: &[String], found: &mut impl FnMut(&[String])) {
    for (name, value) in table {
        let path = [path, std::slice::from_ref(name)].concat();
        if let toml::Value::Table(table) = value {
            leaves(table, &path, found);
        } else {
            found(&path);
        }
    }
}

impl Effective {
    fn value(&self, path: &str) -> Option<&Shown> {
        let mut settings = self.paths();
        settings.find_map(|(known, value)| (join(&known) == path).then_some(value))
    }
}
