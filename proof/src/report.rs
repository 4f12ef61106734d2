//! The report of a tier: one row for each thing that it tried, and its finds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The finds of one tier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// `T1`, as in the table of tiers.
    pub(crate) tier: String,
    /// The commit that was tried.
    pub(crate) commit: String,
    /// The command that does the same again.
    pub(crate) command: String,
    /// The things that were tried.
    pub(crate) rows: Vec<Row>,
    /// Wall time of the whole, in seconds.
    pub(crate) seconds: f64,
}

/// One thing that was tried: a class, a store, a planted bug.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: String,
    /// The number of seeds, states, operations or cuts.
    pub(crate) tried: u64,
    /// The unit of `tried`.
    pub(crate) unit: String,
    /// Faults that were dealt, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) faults: BTreeMap<String, u64>,
    /// Hard cases that were met, by name. One that was not met makes the run a failure: it did not try
    /// hard enough.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) seen: BTreeMap<String, u64>,
    /// Effects that happened more often than the class allows.
    pub(crate) duplicates: u64,
    /// Effects, or acknowledged records, that are missing without a trace.
    pub(crate) lost: u64,
    /// Operations in doubt, whose effect did happen or might have: rightly listed.
    pub(crate) doubts_explained: u64,
    /// Operations in doubt without a possible cause.
    pub(crate) doubts_unexplained: u64,
    /// Late reports that were refused.
    pub(crate) fenced: u64,
    /// Claims that were taken over.
    pub(crate) takeovers: u64,
    /// Wall time, in seconds.
    pub(crate) seconds: f64,
    /// The broken promises, each with the command that plays it again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) violations: Vec<String>,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            ..Self::default()
        }
    }

    /// Adds the numbers of `other` to this.
    pub(crate) fn add(&mut self, other: &Self) {
        self.tried += other.tried;
        for (kind, count) in &other.faults {
            *self.faults.entry(kind.clone()).or_default() += count;
        }
        for (case, count) in &other.seen {
            *self.seen.entry(case.clone()).or_default() += count;
        }
        self.duplicates += other.duplicates;
        self.lost += other.lost;
        self.doubts_explained += other.doubts_explained;
        self.doubts_unexplained += other.doubts_unexplained;
        self.fenced += other.fenced;
        self.takeovers += other.takeovers;
        self.seconds += other.seconds;
        self.violations.extend(other.violations.iter().cloned());
    }

    /// The faults of this row, in words; nothing if it stands.
    pub(crate) fn faults_found(&self) -> Vec<String> {
        let mut found = self.violations.clone();
        if self.tried == 0 {
            found.push("nothing was tried".to_owned());
        }
        for (count, what) in [
            (self.duplicates, "duplicates"),
            (self.lost, "lost"),
            (self.doubts_unexplained, "doubts without a cause"),
        ] {
            if count > 0 {
                found.push(format!("{count} {what}"));
            }
        }
        for (case, count) in &self.seen {
            if *count == 0 {
                found.push(format!("never seen, so never tried: {case}"));
            }
        }
        found
    }
}

impl Report {
    /// The faults of the report, each with the name of its row.
    pub(crate) fn faults_found(&self) -> Vec<String> {
        let none = self.rows.is_empty().then(|| "has no row".to_owned());
        let rows = self.rows.iter().flat_map(|row| {
            let faults = row.faults_found();
            faults
                .into_iter()
                .map(move |fault| format!("{}: {fault}", row.name))
        });
        none.into_iter().chain(rows).collect()
    }

    /// The table that a person reads.
    pub(crate) fn table(&self) -> String {
        let heads = [
            "",
            "tried",
            "",
            "faults",
            "dup",
            "lost",
            "doubt",
            "?",
            "fenced",
            "taken over",
            "s",
        ];
        let mut lines = vec![heads.map(str::to_owned)];
        for row in &self.rows {
            lines.push([
                row.name.clone(),
                row.tried.to_string(),
                row.unit.clone(),
                row.faults.values().sum::<u64>().to_string(),
                row.duplicates.to_string(),
                row.lost.to_string(),
                row.doubts_explained.to_string(),
                row.doubts_unexplained.to_string(),
                row.fenced.to_string(),
                row.takeovers.to_string(),
                format!("{:.1}", row.seconds),
            ]);
        }
        let width = |column: usize| lines.iter().map(|line| line[column].len()).max();
        let mut text = String::new();
        for line in &lines {
            for (column, cell) in line.iter().enumerate() {
                let width = width(column).unwrap_or_default();
                // Words to the left, figures to the right.
                let cell = match column {
                    0 | 2 => format!("{cell:<width$}  "),
                    _ => format!("{cell:>width$}  "),
                };
                text.push_str(&cell);
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_tried_nothing_or_missed_a_hard_case_is_no_success() {
        let mut row = Row::new("park", "seeds");
        assert_eq!(row.faults_found(), ["nothing was tried"]);
        row.tried = 1;
        assert!(row.faults_found().is_empty());
        row.seen.insert("takeover".to_owned(), 0);
        assert_eq!(row.faults_found(), ["never seen, so never tried: takeover"]);
        row.seen.insert("takeover".to_owned(), 2);
        row.duplicates = 1;
        row.doubts_unexplained = 1;
        assert_eq!(
            row.faults_found(),
            ["1 duplicates", "1 doubts without a cause"]
        );
    }

    #[test]
    fn rows_are_added_up_with_all_that_they_say() {
        let mut sum = Row::new("keyed", "seeds");
        let mut one = Row {
            tried: 2,
            lost: 1,
            violations: vec!["seed 7".to_owned()],
            ..Row::default()
        };
        one.seen.insert("fenced".to_owned(), 3);
        sum.add(&one);
        sum.add(&one);
        assert_eq!((sum.tried, sum.lost, sum.seen["fenced"]), (4, 2, 6));
        assert_eq!(sum.violations.len(), 2);
    }
}
