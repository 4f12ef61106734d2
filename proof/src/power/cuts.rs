//! Power cuts of a store that is in use.

use super::dice::Dice;
use super::disk::{Plan, Way};
use super::host::Host;
use super::notes::{Found, Notes};
use super::stores::Kind;
use crate::effort::Effort;
use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// Plays as many cuts as `effort` has, `merge` at a merge and `most` at the most.
pub(crate) fn row(kind: Kind, effort: Effort, merge: u64, most: u64) -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new(kind.name(), "cuts");
    row.seen = [PENDING, ASKED].map(|case| (case.to_owned(), 0)).into();
    if kind.opening() > 0 {
        row.seen.insert(OPENING.to_owned(), 0);
    }
    if kind.is_control() {
        row.seen.insert(LOST.to_owned(), 0);
    }
    let budget = effort.share(merge, ROWS);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let host = match kind.host() {
        Ok(host) => host,
        Err(why) => {
            row.violations.push(why);
            return row;
        }
    };
    while budget.allows(row.tried) && row.tried < most && row.violations.len() < ENOUGH {
        let seed = effort.seed + row.tried / LIVES;
        let cuts = LIVES.min(budget.most() - row.tried).min(most - row.tried);
        let mut series = Series {
            kind,
            host: &host,
            row: &mut row,
            notes: Notes::default(),
            seed,
        };
        if let Err(why) = runtime.block_on(series.play(cuts)) {
            row.violations.push(format!("{why} [--seed {seed}]"));
            break;
        }
    }
    row.seconds = since.elapsed().as_secs_f64();
    row
}

/// The number of such rows in a campaign.
const ROWS: usize = 6;

/// Lives of one store, each ended by a power cut.
struct Series<'a> {
    kind: Kind,
    host: &'a Host,
    row: &'a mut Row,
    notes: Notes,
    seed: u64,
}

impl Series<'_> {
    async fn play(&mut self, cuts: u64) -> Result<(), String> {
        self.host.again()?;
        for cut in 0..cuts {
            let life = self.live(cut).await;
            life.map_err(|why| format!("cut {cut}: {why}"))?;
            self.row.tried += 1;
        }
        self.host.mount()?;
        let opened = self.kind.open(self.host.folder()).await;
        let opened = opened.map_err(|why| format!("does not open in the end: {why}"))?;
        let found = self.notes.look(&opened.store).await;
        opened.end();
        self.host.forget(Way::Nothing, Way::Nothing, 0)?;
        self.count(found.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// One life, and the power cut at its end.
    async fn live(&mut self, cut: u64) -> Result<(), String> {
        let (kind, host) = (self.kind, self.host);
        let mut dice = Dice::new(self.seed.wrapping_mul(1_000_003).wrapping_add(cut));
        host.mount()?;
        let is_early = kind.opening() > 0 && (cut + self.seed).is_multiple_of(4);
        if is_early {
            host.plan(Plan::Cut(dice.below(kind.opening())))?;
        }
        match kind.open(host.folder()).await {
            Ok(opened) => {
                match self.notes.look(&opened.store).await {
                    Ok(found) => self.count(found),
                    Err(_) if host.is_off()? => {}
                    Err(error) => return Err(format!("does not answer: {error}")),
                }
                if !is_early {
                    host.plan(Plan::Cut(1 + dice.below(kind.working())))?;
                }
                kind.work(&opened, host.folder(), &self.notes).await?;
                let is_off = host.is_off()?;
                host.switch_off()?;
                opened.end();
                if !is_off {
                    return Err("refuses although there is power".to_owned());
                }
            }
            Err(_) if host.is_off()? => self.see(OPENING, 1),
            Err(why) => return Err(format!("does not open: {why}")),
        }
        let (data, names) = (kind.draw(&mut dice), Way::draw(&mut dice));
        let forgotten = host.forget(data, names, dice.next())?;
        self.see(PENDING, u64::from(forgotten.pending > 0));
        for (kind, count) in [
            ("power cut", 1),
            ("lost write", forgotten.lost),
            ("torn write", forgotten.torn),
            ("lost entry", forgotten.names),
        ] {
            *self.row.faults.entry(kind.to_owned()).or_default() += count;
        }
        Ok(())
    }

    fn count(&mut self, found: Found) {
        self.see(ASKED, found.asked);
        let lost = found.lost.len() as u64;
        if self.kind.is_control() {
            // With its lost writes it may well lose the tokens that it granted.
            self.see(LOST, lost);
        } else {
            self.row.lost += lost;
            self.tell(found.lost);
            self.tell(found.wrong);
        }
    }

    fn tell(&mut self, wrong: Vec<String>) {
        let (seed, tried) = (self.seed, self.row.tried);
        let told = wrong.into_iter().take(ENOUGH);
        let told = told.map(|what| format!("{what}, after {tried} cuts [--seed {seed}]"));
        self.row.violations.extend(told);
    }

    fn see(&mut self, case: &str, count: u64) {
        *self.row.seen.entry(case.to_owned()).or_default() += count;
    }
}

const PENDING: &str = "cut while a write was pending";
const OPENING: &str = "cut while opening";
const ASKED: &str = "acknowledged and looked for";
const LOST: &str = "acknowledged and lost (control)";
/// Power cuts that one store lives through.
const LIVES: u64 = 10;
/// Violations that are reported.
const ENOUGH: usize = 5;
