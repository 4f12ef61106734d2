//! The page, `docs/spec/crash-table.md`, and its words for each cell.

use std::collections::BTreeMap;

use super::cells::{CELLS, CLASSES, Cell};
use super::outcome::COLUMNS;

/// The one source of the outcome of each cell.
pub(crate) const PAGE: &str = include_str!("../../../docs/spec/crash-table.md");

/// The page's words for one scene and one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// This is the outcome.
    Outcome([String; COLUMNS]),
    /// It cannot happen, for this reason.
    Never(String),
}

/// The place of a cell in [`CELLS`], and the name of its class.
pub(crate) type Place = (usize, &'static str);

/// Everything that the page says.
pub(crate) fn read() -> Result<BTreeMap<Place, Said>, String> {
    parse(PAGE)
}

/// The names of the stores on which each class is played.
pub(crate) fn stores() -> BTreeMap<&'static str, Vec<&'static str>> {
    let rows = PAGE
        .lines()
        .skip_while(|line| !line.starts_with(CLASSES_HEAD));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    let cells = rows.map(|line| line.trim_matches('|').split('|').map(str::trim));
    let named = cells.filter_map(|mut cells| Some((cells.next()?, cells.next_back()?)));
    named
        .map(|(class, stores)| (class, stores.split(", ").collect()))
        .collect()
}

/// Reads a page: every cell once, and nothing that is not a cell.
fn parse(page: &str) -> Result<BTreeMap<Place, Said>, String> {
    let mut said = BTreeMap::new();
    let mut cell = None;
    let table = page
        .lines()
        .skip_while(|line| !line.starts_with(CELLS_HEAD));
    for line in table.filter(|line| line.starts_with('|')) {
        let columns: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, step, fault, classes, outcome @ ..] = &columns[..] else {
            continue;
        };
        // Head and rule.
        if *id == "#" || id.starts_with("--") {
            continue;
        }
        if !id.is_empty() {
            let is_it = |cell: &Cell| (cell.id, cell.step, cell.fault) == (id, step, fault);
            let found = CELLS.iter().position(is_it);
            cell = Some(found.ok_or(format!("nobody plays {line}"))?);
        }
        let cell = cell.ok_or(format!("{line} belongs to nothing"))?;
        let outcome = match outcome {
            ["–", .., why] => Said::Never((*why).to_owned()),
            outcome => {
                let words: Vec<String> = outcome.iter().map(ToString::to_string).collect();
                let words = words.try_into();
                Said::Outcome(words.map_err(|_| format!("{line} has other columns"))?)
            }
        };
        let every = CLASSES.iter().filter(|(name, _)| {
            *classes == "every" || classes.split(", ").any(|class| class == *name)
        });
        let named: Vec<&str> = every.map(|(name, _)| *name).collect();
        if *classes != "every" && named.len() != classes.split(", ").count() {
            return Err(format!("{line} names a class that does not exist"));
        }
        for class in named {
            if said.insert((cell, class), outcome.clone()).is_some() {
                return Err(format!("{line}: {class} is said twice"));
            }
        }
    }
    for (place, cell) in CELLS.iter().enumerate() {
        for (class, _) in CLASSES {
            if !said.contains_key(&(place, class)) {
                return Err(format!("the page says nothing of {}, {class}", name(cell)));
            }
        }
    }
    Ok(said)
}

/// The first words of the tables.
const CLASSES_HEAD: &str = "| Class |";
const CELLS_HEAD: &str = "| # |";

/// A scene, as the page names it.
pub(crate) fn name(cell: &Cell) -> String {
    format!("{} {}, {}", cell.id, cell.step, cell.fault)
}

/// The lines that a page would have for the observed outcomes, classes with the same outcome in
/// one.
#[cfg(test)]
pub(crate) fn lines(seen: &BTreeMap<Place, Said>) -> String {
    let mut text = String::new();
    for (place, cell) in CELLS.iter().enumerate() {
        let mut groups: Vec<(Vec<&str>, &Said)> = Vec::new();
        for (class, _) in CLASSES {
            let said = &seen[&(place, class)];
            match groups.iter_mut().find(|(_, other)| *other == said) {
                Some((classes, _)) => classes.push(class),
                None => groups.push((vec![class], said)),
            }
        }
        for (index, (classes, said)) in groups.iter().enumerate() {
            let head = match index {
                0 => format!("{} | {} | {}", cell.id, cell.step, cell.fault),
                _ => " | | ".to_owned(),
            };
            let classes = if classes.len() == CLASSES.len() {
                "every".to_owned()
            } else {
                classes.join(", ")
            };
            let rest = match said {
                Said::Outcome(words) => words.join(" | "),
                Said::Never(why) => format!("– | | | | {why}"),
            };
            text += &["| ", &head, " | ", &classes, " | ", &rest, " |\n"].concat();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_lacks_a_cell_or_has_one_too_many_is_refused() {
        let whole = CELLS_HEAD.to_owned() + "\n" + &lines(&read().expect("the page is whole"));
        assert_eq!(parse(&whole), read());
        let first = whole.lines().nth(1).expect("a line");
        let wrong = |page: &str| parse(page).expect_err(page);
        let less = whole.replacen(first, "", 1);
        assert!(wrong(&less).contains("says nothing of S0"));
        assert!(wrong(&format!("{whole}{first}")).contains("said twice"));
        let unknown = whole.replacen("| S0 |", "| S99 |", 1);
        assert!(wrong(&unknown).contains("nobody plays"));
        let class = whole.replacen("keyed", "keyless", 1);
        assert!(wrong(&class).contains("does not exist"));
    }
}
