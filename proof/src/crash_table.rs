//! The crash table as a test: every cell of `docs/spec/crash-table.md` is played by the engine, over
//! a real store, and has to end as the page says; pairs of faults have to keep the promise of the
//! class. The page is parsed, so it cannot say one thing and the test another.
//!
//! On a server every cell has a place of its own, and the store has the clock of the cell: a pause beyond
//! the lease takes no time there either.

mod cells;
mod deal;
mod outcome;
mod page;
mod pairs;
mod prompt;
mod scene;
mod servers;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use semel_core::StateKind;
use semel_simulation::on_cue::stage::{Kind, Stage};
use semel_simulation::on_cue::time::PausedClock;

use crate::effort::{Effort, Size};
use crate::report::Row;
use crate::stopwatch::Stopwatch;
use cells::{CELLS, CLASSES};
use page::{Place, Said};
use scene::{Played, Scene};
use store::Shelf;

/// Plays every cell over memory and SQLite, and in a campaign over every store; all pairs over memory.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let said = match page::read().and_then(|said| stores().map(|()| said)) {
        Ok(said) => said,
        Err(wrong) => {
            let mut row = Row::new("the page", "cells");
            row.violations.push(wrong);
            return vec![row];
        }
    };
    let stores = match effort.size {
        Size::Merge => &Shelf::ALL[..2],
        Size::Seeds(_) | Size::Minutes(_) => &Shelf::ALL[..],
    };
    let stores = stores.iter().filter(|shelf| effort.has(shelf.name()));
    let mut rows = Vec::new();
    for shelf in stores {
        rows.push(cells(*shelf, &said));
        // A planted bug is seen, and this run needs no more than that.
        if cfg!(semel_planted) && rows.iter().any(|row: &Row| !row.violations.is_empty()) {
            return rows;
        }
    }
    if effort.has(Shelf::Memory.name()) {
        rows.extend(CLASSES.map(|(class, kind)| pairs(class, kind)));
    }
    rows
}

/// Checks that the page names those stores for each class on which it is played.
fn stores() -> Result<(), String> {
    let said = page::stores();
    for (class, kind) in CLASSES {
        let has = Shelf::ALL.iter().filter(|shelf| shelf.has(kind));
        let names: Vec<&str> = has.map(|shelf| shelf.name()).collect();
        if said.get(class) != Some(&names) {
            let names = names.join(", ");
            return Err(format!("the page does not say that {class} has {names}"));
        }
    }
    Ok(())
}

/// Every cell of the page over one store, several at a time, since they mostly wait for a disk.
fn cells(shelf: Shelf, said: &BTreeMap<Place, Said>) -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new(format!("cells, {}", shelf.name()), "cells");
    // Checked once, and not for every cell.
    if let Err(why) = shelf.open(PausedClock::new()) {
        row.violations.push(format!("there is no store: {why}"));
        return row;
    }
    std::thread::scope(|scope| {
        let shares = (0..SHARES).map(|nth| {
            let mine = said.iter().skip(nth).step_by(SHARES);
            scope.spawn(move || share(shelf, mine))
        });
        // All begin before the first is waited for.
        let shares: Vec<_> = shares.collect();
        for share in shares {
            row.add(&share.join().expect("what panics is caught"));
        }
    });
    row.seconds = since.elapsed().as_secs_f64();
    row
}

const SHARES: usize = 4;

fn share<'a>(shelf: Shelf, said: impl Iterator<Item = (&'a Place, &'a Said)>) -> Row {
    let mut row = Row::default();
    expect_hard_cases(&mut row, CASES);
    for ((place, class), said) in said {
        let cell = &CELLS[*place];
        let kind = kind(class);
        let name = format!("{}, {class}", page::name(cell));
        let wanted = match (said, cell.scene.can_be_played(kind)) {
            (Said::Outcome(wanted), Ok(())) => wanted,
            (Said::Never(_), Err(_)) => continue,
            (Said::Outcome(_), Err(why)) => {
                row.violations
                    .push(format!("{name}: the page has it, but {why}"));
                continue;
            }
            (Said::Never(_), Ok(())) => {
                row.violations
                    .push(format!("{name}: the page says never, but it can be played"));
                continue;
            }
        };
        if !shelf.has(kind) {
            continue;
        }
        row.tried += 1;
        match played(shelf, kind, cell.scene) {
            Err(panicked) => row.violations.push(format!("{name}: {panicked}")),
            Ok(played) => {
                count(&mut row, &played);
                // The page predicts it, so it is explained.
                row.doubts_explained += u64::from(is_in_doubt(&played));
                if played.dealt[0] > 0 {
                    *row.faults.entry(cell.fault.to_owned()).or_default() += played.dealt[0];
                }
                let words = played.outcome.words();
                if words != *wanted {
                    let (words, wanted) = (words.join(" | "), wanted.join(" | "));
                    row.violations
                        .push(format!("{name}: {words}, but the page says {wanted}"));
                }
                if played.unacknowledged > 0 {
                    row.violations
                        .push(format!("{name}: it is not acknowledged"));
                }
                let faults = match cell.scene {
                    Scene::Unusable(None) | Scene::Again | Scene::AgainLate(_) => 0,
                    Scene::Twice(..) => 2,
                    _ => 1,
                };
                if played.dealt[0] < faults {
                    row.violations.push(format!("{name}: the fault never came"));
                }
            }
        }
    }
    row
}

/// Every pair of faults in one class, over memory.
fn pairs(class: &str, kind: Kind) -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new(format!("pairs, {class}"), "pairs");
    let hard: &[&str] = match kind {
        // Where everything is one step, nothing is left to take over.
        Kind::Transaction => &[],
        Kind::Output | Kind::Keyed | Kind::Gated => &["takeover", "fenced"],
        Kind::Repeat | Kind::Stream => &["takeover", "fenced", "possible repeat", "twice"],
        // Nor where a doubt parks; the late evidence of the claim in doubt counts.
        Kind::Park => &["in doubt", "late evidence"],
    };
    expect_hard_cases(&mut row, hard);
    row.seen.insert("both faults came".to_owned(), 0);
    let causes = causes(kind);
    for scene in pairs::all(kind) {
        row.tried += 1;
        match played(Shelf::Memory, kind, scene) {
            Err(panicked) => row
                .violations
                .push(format!("{scene:?}, {class}: {panicked}")),
            Ok(played) => {
                count(&mut row, &played);
                let both = match scene {
                    Scene::Twice(..) => played.dealt[0] > 1,
                    _ => played.dealt.iter().all(|dealt| *dealt > 0),
                };
                *row.seen.entry("both faults came".to_owned()).or_default() += u64::from(both);
                *row.faults.entry("of a pair".to_owned()).or_default() +=
                    played.dealt.iter().sum::<u64>();
                let is_explained = pairs::leaves_a_grant(scene)
                    || scene.deals().iter().any(|deal| causes.contains(deal));
                if is_uncertain(&played) && !is_explained {
                    row.doubts_unexplained += u64::from(is_in_doubt(&played));
                    row.violations
                        .push(format!("{scene:?}, {class}: nothing explains the doubt"));
                }
                row.doubts_explained += u64::from(is_in_doubt(&played) && is_explained);
                if let Some(broken) = pairs::broken(kind, &played) {
                    row.violations.push(format!("{scene:?}, {class}: {broken}"));
                }
            }
        }
    }
    row.seconds = since.elapsed().as_secs_f64();
    row
}

/// The faults that cause a doubt or a repeat by themselves.
fn causes(kind: Kind) -> BTreeSet<String> {
    let mut causes = BTreeSet::new();
    for deal in pairs::deals() {
        for scene in [Scene::Alone(deal), Scene::Beside(deal)] {
            let is_one = scene.can_be_played(kind).is_ok()
                && played(Shelf::Memory, kind, scene).is_ok_and(|played| is_uncertain(&played));
            if is_one {
                causes.extend(scene.deals());
            }
        }
    }
    causes
}

/// Returns whether an operator can see in a list that the effect may not have happened just once.
fn is_uncertain(played: &Played) -> bool {
    played.outcome.is("in-doubt") || played.outcome.is("possible-repeat")
}

fn is_in_doubt(played: &Played) -> bool {
    played.outcome.state == Some(StateKind::InDoubt)
}

/// The hard cases that the cells of every store have to show.
const CASES: &[&str] = &[
    "takeover",
    "fenced",
    "in doubt",
    "late evidence",
    "possible repeat",
    "too old",
    "twice",
];

fn expect_hard_cases(row: &mut Row, cases: &[&str]) {
    for case in cases {
        row.seen.insert((*case).to_owned(), 0);
    }
}

fn count(row: &mut Row, played: &Played) {
    let outcome = &played.outcome;
    let in_doubt = is_in_doubt(played);
    let cases = [
        ("takeover", played.takeovers),
        ("fenced", played.fenced),
        ("in doubt", u64::from(in_doubt)),
        ("possible repeat", u64::from(outcome.is("possible-repeat"))),
        (
            "late evidence",
            u64::from(!in_doubt && outcome.is("in-doubt")),
        ),
        ("too old", u64::from(outcome.is("too-old"))),
        ("twice", u64::from(outcome.effects > 1)),
    ];
    for (case, times) in cases {
        if let Some(seen) = row.seen.get_mut(case) {
            *seen += times;
        }
    }
    row.takeovers += played.takeovers;
    row.fenced += played.fenced;
}

/// Plays a scene in a world of its own; a panic in there is returned as an error.
fn played(shelf: Shelf, kind: Kind, scene: Scene) -> Result<Played, String> {
    let playing = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let clock = PausedClock::new();
            let (backing, _place) = shelf.open(clock).expect("a store");
            let stage = Stage::over(kind, clock, backing);
            Box::pin(scene::play(&stage, scene)).await
        })
    };
    catch_unwind(AssertUnwindSafe(playing)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let literal = panic.downcast_ref::<&str>().map(ToString::to_string);
        text.or(literal)
            .unwrap_or("a panic without words".to_owned())
    })
}

fn kind(class: &str) -> Kind {
    let found = CLASSES.iter().find(|(name, _)| *name == class);
    found.expect("the page names classes").1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wrong page is reported with the cell, its words and the observed outcome.
    #[test]
    fn a_page_that_says_something_else_is_a_violation() {
        let mut said = page::read().expect("the page is whole");
        said.retain(|(place, class), _| *place == 0 && *class == "park");
        assert_eq!(cells(Shelf::Memory, &said).violations, [""; 0]);
        for said in said.values_mut() {
            let Said::Outcome(words) = said else {
                panic!("S0 befalls everybody");
            };
            "0".clone_into(&mut words[0]);
        }
        let violations = cells(Shelf::Memory, &said).violations;
        let wrong = "S0 delivery, crash after, park: 1 | completed | 1 | – | 1 applied, but the \
                     page says 0 | completed | 1 | – | 1 applied";
        assert_eq!(violations, [wrong]);
    }

    /// Compares word by word, and prints the line that the page lacks.
    #[test]
    fn the_page_is_what_happens_over_memory() {
        assert_eq!(stores(), Ok(()));
        let mut seen = BTreeMap::new();
        for (place, cell) in CELLS.iter().enumerate() {
            for (class, kind) in CLASSES {
                let said = match cell.scene.can_be_played(kind) {
                    Err(why) => Said::Never(why.to_owned()),
                    Ok(()) => match played(Shelf::Memory, kind, cell.scene) {
                        Ok(played) => Said::Outcome(played.outcome.words()),
                        Err(panicked) => panic!("{}, {class}: {panicked}", page::name(cell)),
                    },
                };
                seen.insert((place, class), said);
            }
        }
        let wrong = page::lines(&seen);
        let wrong: Vec<&str> = wrong
            .lines()
            .filter(|line| !page::PAGE.contains(line))
            .collect();
        assert_eq!(wrong, [""; 0]);
        let row = cells(Shelf::Memory, &page::read().expect("the page is whole"));
        assert_eq!(row.faults_found(), [""; 0]);
        assert!(row.tried > 300, "{} cells", row.tried);
    }
}
