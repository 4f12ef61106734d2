//! The files of a crate import each other in one direction: a file that belongs to no circle can be read, tested and
//! moved alone.
//!
//! A circle is a strongly connected component of the imports of one crate. A file and the modules below it may know
//! each other, since children share the private types of their parent: the files within one file's module are a circle
//! only if one remains without the imports of parents by their children. In a larger circle, a child whose only imports
//! in it are the files it lies within is part of its parent. The root is the parent of all and part of no circle.

mod components;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::rust::{Source, line};
use crate::tree::Tree;

use self::components::components;
use super::exceptions::{Entry, List};
use super::imports::{Imports, is_root, is_within};
use super::{Finding, packages};

const EXCEPTIONS: &str = "xtask/src/tidy/exceptions/circles.txt";

/// The imports of each file: the imported file, and the byte of an import.
type Edges<'a> = BTreeMap<&'a str, BTreeMap<&'a str, usize>>;

/// Compares the circles of every crate with the list.
pub(super) fn check(tree: &Tree, sources: &[(&str, Source<'_>)]) -> Vec<Finding> {
    let list = List::read(tree, EXCEPTIONS);
    let packages = packages(tree);
    let mut findings = Vec::new();
    for package in &packages {
        let folder = format!("{package}/src/");
        let of_package = sources
            .iter()
            .filter_map(|(path, source)| Some((path.strip_prefix(&folder)?, source.code())));
        let imports = Imports::read(of_package);
        let edges = edges(&imports);
        let circles = circles(&imports, &edges);
        let allowed: Vec<_> = list.entries().filter(|it| it.name == *package).collect();
        for circle in &circles {
            findings.extend(refuse(tree, &folder, &edges, circle, &allowed));
        }
        let circles: Vec<_> = circles.into_iter().map(|circle| circle.files).collect();
        for entry in allowed {
            findings.extend(shrink(&list, entry, &circles));
        }
    }
    for entry in list.entries() {
        if !packages.contains(&entry.name) {
            findings.push(list.shrunk(entry, "is no crate", Vec::new()));
        }
    }
    findings
}

fn edges(imports: &Imports) -> Edges<'_> {
    let mut edges = Edges::new();
    for (from, to, at) in imports.edges().filter(|(_, to, _)| !is_root(to)) {
        edges.entry(from).or_default().insert(to, at);
    }
    edges
}

/// Some files of a crate that import each other in a circle.
struct Circle<'a> {
    /// All of them.
    component: BTreeSet<&'a str>,
    /// Those that count.
    files: BTreeSet<&'a str>,
    /// The parents of the others: each of these imports in the circle the file it lies within, and others below that,
    /// and counts as part of that file.
    parents: BTreeMap<&'a str, &'a str>,
}

impl<'a> Circle<'a> {
    fn of(component: BTreeSet<&'a str>, edges: &Edges<'a>) -> Self {
        let mut parents = BTreeMap::new();
        loop {
            let parent = |file: &&'a str| parent(file, &component, edges, &parents);
            let more: Vec<_> = component
                .iter()
                .filter(|file| !parents.contains_key(**file))
                .filter_map(|file| Some((*file, parent(file)?)))
                .collect();
            if more.is_empty() {
                break;
            }
            parents.extend(more);
        }
        let files = component.iter().copied();
        let files = files.filter(|file| !parents.contains_key(file)).collect();
        Self {
            component,
            files,
            parents,
        }
    }

    /// The file that `file` counts as.
    fn counted(&self, file: &'a str) -> &'a str {
        self.parents.get(file).copied().unwrap_or(file)
    }
}

/// The outermost file of those that `file` imports in `component`, if it lies within all of them; files that have one
/// already count as that.
fn parent<'a>(
    file: &'a str,
    component: &BTreeSet<&'a str>,
    edges: &Edges<'a>,
    parents: &BTreeMap<&'a str, &'a str>,
) -> Option<&'a str> {
    let imported: BTreeSet<&str> = next(edges, file)
        .filter(|to| component.contains(to))
        .map(|to| parents.get(to).copied().unwrap_or(to))
        .collect();
    let is_inside = imported.iter().all(|to| is_within(file, to));
    let outermost = imported.into_iter().min_by_key(|to| to.len());
    outermost.filter(|_| is_inside)
}

/// The circles that count.
fn circles<'a>(imports: &'a Imports, edges: &Edges<'a>) -> Vec<Circle<'a>> {
    components(imports.files(), |file| next(edges, file))
        .into_iter()
        .filter(|component| component.len() > 1 && !is_family(component, edges))
        .map(|component| Circle::of(component, edges))
        .collect()
}

fn next<'a>(edges: &Edges<'a>, file: &str) -> impl Iterator<Item = &'a str> {
    edges
        .get(file)
        .into_iter()
        .flat_map(|to| to.keys().copied())
}

/// Tells whether all are one file and those within its module, with no circle but by imports of parents.
fn is_family(circle: &BTreeSet<&str>, edges: &Edges<'_>) -> bool {
    let is_head = |head: &&str| circle.iter().all(|it| it == head || is_within(it, head));
    if !circle.iter().any(is_head) {
        return false;
    }
    let downward = components(circle.iter().copied(), |file| {
        let within = next(edges, file).filter_map(move |to| circle.get(to).copied());
        within.filter(move |to| !is_within(file, to))
    });
    downward.iter().all(|component| component.len() == 1)
}

/// The error of a circle that no entry of the list covers: the imports that close it.
fn refuse<'a>(
    tree: &Tree,
    folder: &str,
    edges: &Edges<'a>,
    circle: &Circle<'a>,
    allowed: &[&Entry<'_>],
) -> Option<Finding> {
    let is_covered = |files: &[&str]| {
        let covers = |entry: &Entry<'_>| files.iter().all(|it| entry.members.contains(it));
        allowed.iter().any(|entry| covers(entry))
    };
    let files: Vec<&str> = circle.files.iter().copied().collect();
    if is_covered(&files) {
        return None;
    }
    let mut ways = Vec::new();
    for from in files {
        let next = next(edges, from).filter(|to| circle.component.contains(to));
        for to in next.filter(|to| !is_covered(&[from, circle.counted(to)])) {
            let back = way(edges, &circle.component, to, from)?;
            let is_family = is_family(&back.iter().copied().collect(), edges);
            let way = [&[from][..], back.as_slice()].concat();
            ways.push((is_family, way.len(), is_covered(&[from]), way));
        }
    }
    let (.., way) = ways.into_iter().min()?;
    let mut message = "this import closes a circle: ".to_owned();
    let mut place = None;
    for pair in way.windows(2) {
        let (path, at) = (format!("{folder}{}", pair[0]), edges[pair[0]][pair[1]]);
        let line = line(tree.text(&path).unwrap_or_default(), at);
        message = format!("{message}{}:{line} imports ", pair[0]);
        place.get_or_insert((path, line));
    }
    message += way[0];
    let (path, line) = place?;
    Some(Finding::error(&path, line, message))
}

/// The shortest way along the imports within `circle`.
fn way<'a>(
    edges: &Edges<'a>,
    circle: &BTreeSet<&'a str>,
    from: &'a str,
    to: &'a str,
) -> Option<Vec<&'a str>> {
    let mut before = BTreeMap::from([(from, from)]);
    let mut queue = VecDeque::from([from]);
    while let Some(file) = queue.pop_front() {
        if file == to {
            let mut way = vec![to];
            while way.last() != Some(&from) {
                way.push(before[*way.last()?]);
            }
            way.reverse();
            return Some(way);
        }
        for to in next(edges, file).filter(|to| circle.contains(to)) {
            if !before.contains_key(to) {
                before.insert(to, file);
                queue.push_back(to);
            }
        }
    }
    None
}

/// The error of an entry that is no longer a circle, or a smaller one.
fn shrink(list: &List<'_>, entry: &Entry<'_>, circles: &[BTreeSet<&str>]) -> Option<Finding> {
    let is_known = |file: &&str| entry.members.contains(file);
    let (within, beyond): (Vec<_>, Vec<_>) = circles
        .iter()
        .filter(|circle| circle.iter().any(is_known))
        .partition(|circle| circle.iter().all(is_known));
    if !beyond.is_empty() || within.iter().any(|it| it.len() == entry.members.len()) {
        return None;
    }
    let first = entry.members.first().copied().unwrap_or_default();
    let why = match within.as_slice() {
        [] => format!("has no circle of {first} and others any more"),
        [..] => format!("has a smaller circle of {first} and others"),
    };
    Some(
        list.shrunk(
            entry,
            &why,
            within
                .into_iter()
                .flat_map(|it| written(entry.name, it))
                .collect(),
        ),
    )
}

/// The lines of a circle in the list.
fn written(package: &str, circle: &BTreeSet<&str>) -> Vec<String> {
    let members = circle.iter().map(|file| format!("  {file}"));
    std::iter::once(package.to_owned()).chain(members).collect()
}

#[cfg(test)]
mod tests;
