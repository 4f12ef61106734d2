//! A life of a store, cut off after every single file operation, and with every single operation
//! failing. The proof plays it too.

use std::io::ErrorKind;

use semel_conformance::TestClock;
use semel_core::Certainty;

use super::disk::{Data, Disk, Names, Plan, Survival};
use super::life::{self, Life, Wrong, script};
use super::model::Model;
use super::planted::Planted;

/// Result of a run of the life.
struct Run {
    life: Life,
    /// States that may be found: everything acknowledged, with or without the current step.
    models: Vec<Model>,
}

/// Crashes after every `step`-th operation, until `most` cases are broken.
pub(crate) fn crash_everywhere(
    planted: Planted,
    step: usize,
    most: usize,
) -> (usize, usize, Vec<String>) {
    let runtime = runtime();
    let whole = Disk::new(Plan::Nothing, planted);
    let run = runtime.block_on(live(&whole));
    drop(run);
    let total = whole.operations();
    let (mut points, mut cases, mut broken) = (0, 0, Vec::new());
    for point in (0..total).step_by(step) {
        let disk = Disk::new(Plan::CrashAfter(point), planted);
        let mut run = match runtime.block_on(live(&disk)) {
            Ok(run) => run,
            Err(why) => {
                broken.push(format!("before the crash after operation {point}: {why}"));
                continue;
            }
        };
        run.life.close();
        points += 1;
        for survival in Survival::ALL {
            cases += 1;
            if let Err(why) = runtime.block_on(survive(&disk.survivor(survival), &run)) {
                broken.push(format!(
                    "operation {point} of {total}, {survival:?}: {why}\n"
                ));
            }
            if broken.len() >= most {
                return (points, cases, broken);
            }
        }
    }
    (points, cases, broken)
}

/// Lives until the script or the power ends.
async fn live(disk: &Disk) -> Result<Run, String> {
    let mut life = Life::begin(disk, TestClock::new());
    if let Err(wrong) = life.open() {
        let models = vec![Model::default()];
        return unless_broken(wrong).map(|_| Run { life, models });
    }
    for act in script() {
        let after = life.after(&act);
        if let Err(wrong) = life.act(&act).await {
            let models = vec![life.model.clone(), after];
            return unless_broken(wrong).map(|_| Run { life, models });
        }
    }
    life.close();
    let models = vec![life.model.clone()];
    Ok(Run { life, models })
}

fn unless_broken(wrong: Wrong) -> Result<semel_core::Error, String> {
    match wrong {
        Wrong::Failed(error) => Ok(error),
        Wrong::Broken(what) => Err(what),
    }
}

/// Reopens the store that survived, compares, goes on, and reopens again.
async fn survive(disk: &Disk, run: &Run) -> Result<(), String> {
    let mut life = Life::begin(disk, run.life.clock.clone());
    life.token = run.life.token;
    life.open()
        .map_err(|wrong| format!("does not open: {wrong:?}"))?;
    let found = life
        .find()
        .await
        .map_err(|wrong| format!("cannot be read: {wrong:?}"))?;
    let differences: Vec<_> = run
        .models
        .iter()
        .filter_map(|model| found.differs_from(model))
        .collect();
    if differences.len() == run.models.len() {
        return Err(differences.join("; or "));
    }
    if found.token <= run.life.token {
        return Err(format!("token {} after {}", found.token, run.life.token));
    }
    life.token = found.token;
    life.model = match run
        .models
        .iter()
        .find(|model| found.differs_from(model).is_none())
    {
        Some(model) => model.clone(),
        None => return Err("no model fits".into()),
    };
    life.go_on()
        .await
        .map_err(|wrong| format!("cannot go on: {wrong:?}"))?;
    life.close();
    // The power goes once more: all of it was acknowledged.
    let lost = Survival {
        names: Names::Lost,
        data: Data::Lost,
    };
    let mut again = Life::begin(&disk.survivor(lost), life.clock.clone());
    again
        .open()
        .map_err(|wrong| format!("does not open again: {wrong:?}"))?;
    let found = again
        .find()
        .await
        .map_err(|wrong| format!("cannot be read again: {wrong:?}"))?;
    found
        .differs_from(&life.model)
        .map_or(Ok(()), |why| Err(format!("after going on: {why}")))
}

/// Lets every `step`-th operation fail once, with every error, until `most` cases are broken.
pub(crate) fn fail_everywhere(
    planted: Planted,
    step: usize,
    most: usize,
) -> (usize, usize, Vec<String>) {
    let runtime = runtime();
    let whole = Disk::new(Plan::Nothing, planted);
    drop(runtime.block_on(live(&whole)));
    let (mut points, mut undone, mut broken) = (0, 0, Vec::new());
    for point in (0..whole.operations()).step_by(step) {
        for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
            points += 1;
            let disk = Disk::new(Plan::Fail(point, kind), planted);
            match runtime.block_on(live_with_failure(&disk)) {
                Ok(retried) => undone += usize::from(retried),
                Err(why) => broken.push(format!("{kind:?} at operation {point}: {why}\n")),
            }
            if broken.len() >= most {
                return (points, undone, broken);
            }
        }
    }
    (points, undone, broken)
}

/// Lives with one failure: a step that surely was not applied is tried again in place; after any
/// other failure the store is reopened. Returns whether something was tried again.
async fn live_with_failure(disk: &Disk) -> Result<bool, String> {
    let mut life = Life::begin(disk, TestClock::new());
    let mut retried = false;
    if let Err(wrong) = life.open() {
        unless_broken(wrong)?;
        life.open()
            .map_err(|wrong| format!("does not open at the second try: {wrong:?}"))?;
    }
    for act in script() {
        let after = life.after(&act);
        let Err(wrong) = life.act(&act).await else {
            continue;
        };
        let error = unless_broken(wrong)?;
        let was_poisoned = error.code() == semel_core::Code::StorePoisoned;
        if error.certainty() == Certainty::NotApplied
            && !was_poisoned
            && !matches!(act, life::Act::Reopen)
        {
            retried = true;
            life.act(&act)
                .await
                .map_err(|wrong| format!("{act:?} at the second try: {wrong:?}"))?;
            continue;
        }
        life.open()
            .map_err(|wrong| format!("does not open after {error:?}: {wrong:?}"))?;
        let found = life
            .find()
            .await
            .map_err(|wrong| format!("cannot be read: {wrong:?}"))?;
        let mut models = vec![life.model.clone()];
        if error.certainty() == Certainty::MaybeApplied {
            models.push(after);
        }
        let differences: Vec<_> = models
            .iter()
            .filter_map(|model| found.differs_from(model))
            .collect();
        if differences.len() == models.len() {
            return Err(differences.join("; or "));
        }
        models.retain(|model| found.differs_from(model).is_none());
        // The read state has been answered: the power may go now.
        life.close();
        let lost = Survival {
            names: Names::Lost,
            data: Data::Lost,
        };
        let run = Run { life, models };
        return survive(&disk.survivor(lost), &run).await.map(|()| retried);
    }
    life.close();
    let lost = Survival {
        names: Names::Lost,
        data: Data::Lost,
    };
    let models = vec![life.model.clone()];
    survive(&disk.survivor(lost), &Run { life, models })
        .await
        .map(|()| retried)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
}
