//! The book's page of proof: the results of the kept runs, as tables between two marks of a page
//! that is otherwise written by hand.

use std::fmt::Write as _;

use serde_json::Value;

/// The page.
pub(crate) const PAGE: &str = "docs/book/src/proof.md";
/// The folder of the reports from which it is made, a file a tier.
pub(crate) const KEPT: &str = "proof/results/";

const BEGIN: &str = "<!-- What follows is written by `cargo xtask prove --keep`. -->";
const END: &str = "<!-- What follows is written by hand. -->";

/// The result of one tier in a run that was kept.
#[derive(Debug)]
pub(crate) struct Kept {
    /// `T1`.
    pub(crate) tier: String,
    commit: String,
    command: String,
    seconds: f64,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    unit: String,
    tried: u64,
    seconds: f64,
    /// The figures, in the order of `FIGURES`.
    figures: [u64; FIGURES.len()],
    faults: Vec<(String, u64)>,
    seen: Vec<(String, u64)>,
    violations: usize,
}

/// The figures of a row: their names in the report and on the page, and whether a value above 0 is
/// allowed.
const FIGURES: [(&str, &str, bool); 6] = [
    ("duplicates", "duplicates", false),
    ("lost", "lost", false),
    ("doubts_explained", "doubts", true),
    ("doubts_unexplained", "doubts without a cause", false),
    ("fenced", "fenced", true),
    ("takeovers", "takeovers", true),
];

impl Kept {
    /// Reads a report as the proof writes it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let report: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let rows = report["rows"].as_array().ok_or("there are no `rows`")?;
        Ok(Self {
            tier: words(&report, "tier")?,
            commit: words(&report, "commit")?,
            command: words(&report, "command")?,
            seconds: seconds(&report)?,
            rows: rows.iter().map(Row::read).collect::<Result<_, _>>()?,
        })
    }

    /// The reasons against keeping the report; nothing if it stands.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.commit == "unknown" || self.commit.ends_with("-dirty") {
            found.push(format!("it is of no commit: {}", self.commit));
        }
        if self.rows.is_empty() {
            found.push("has no row".to_owned());
        }
        for row in &self.rows {
            found.extend(row.faults_found());
        }
        found
    }

    /// The number of things that were tried and stand, and the faults of the others.
    pub(crate) fn counted(&self) -> (usize, Vec<String>) {
        let each = self.rows.iter().map(Row::faults_found);
        let (stand, others): (Vec<_>, Vec<_>) = each.partition(Vec::is_empty);
        (stand.len(), others.concat())
    }

    fn number(&self) -> u32 {
        // `T8-kafka` is a part.
        let number = self.tier.strip_prefix('T').and_then(|it| {
            let number = it.split('-').next()?;
            number.parse().ok()
        });
        number.unwrap_or(u32::MAX)
    }

    /// The part of the page about this run.
    fn section(&self) -> String {
        let mut text = format!(
            "### {}\n\n`{}` on commit `{}` took {}.\n\n",
            self.tier,
            self.command,
            self.commit,
            time(self.seconds)
        );
        let heads = FIGURES.map(|(_, head, _)| format!(" {head} |"));
        let _ = writeln!(text, "| | tried |{} time |", heads.concat());
        let _ = writeln!(text, "|---|--:|{}--:|", "--:|".repeat(FIGURES.len()));
        for row in &self.rows {
            let figures = row.figures.map(|figure| format!(" {} |", grouped(figure)));
            let _ = writeln!(
                text,
                "| {} | {} {} |{} {} |",
                row.name.replace('|', "\\|"),
                grouped(row.tried),
                row.unit,
                figures.concat(),
                time(row.seconds)
            );
        }
        let sums = [
            ("Faults that were dealt", self.sum(|row| &row.faults)),
            ("Hard cases that were seen", self.sum(|row| &row.seen)),
        ];
        for (what, sums) in sums {
            if !sums.is_empty() {
                let sentence = format!("{what}: {}.", sums.join(", "));
                let _ = writeln!(text, "\n{}", wrapped(&sentence));
            }
        }
        text
    }

    /// Each kind with its number over all rows, or from the row that is their sum, if there is one.
    fn sum(&self, of: impl Fn(&Row) -> &Vec<(String, u64)>) -> Vec<String> {
        let mut sums = std::collections::BTreeMap::<&str, u64>::new();
        let all = self.rows.iter().find(|row| row.name == "all");
        let rows = all.map_or(&self.rows[..], std::slice::from_ref);
        for (kind, count) in rows.iter().flat_map(of) {
            *sums.entry(kind).or_default() += count;
        }
        let told = |(kind, count)| format!("{kind} {}", grouped(count));
        sums.into_iter().map(told).collect()
    }
}

/// The same words in lines of at most 120 characters, as the pages have them.
fn wrapped(sentence: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in sentence.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= 120 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

impl Row {
    fn read(row: &Value) -> Result<Self, String> {
        let mut figures = [0; FIGURES.len()];
        for (figure, (name, _, _)) in figures.iter_mut().zip(FIGURES) {
            *figure = number(row, name)?;
        }
        Ok(Self {
            name: words(row, "name")?,
            unit: words(row, "unit")?,
            tried: number(row, "tried")?,
            seconds: seconds(row)?,
            figures,
            faults: counts(row, "faults")?,
            seen: counts(row, "seen")?,
            violations: row["violations"].as_array().map_or(0, Vec::len),
        })
    }

    fn faults_found(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut must_be = |holds: bool, fault: String| {
            if !holds {
                found.push(format!("{}: {fault}", self.name));
            }
        };
        must_be(self.tried > 0, "nothing was tried".to_owned());
        let broken = format!("{} broken promises", self.violations);
        must_be(self.violations == 0, broken);
        for (figure, (_, what, may_be)) in self.figures.iter().zip(FIGURES) {
            must_be(may_be || *figure == 0, format!("{figure} {what}"));
        }
        for (case, count) in &self.seen {
            must_be(*count > 0, format!("never seen: {case}"));
        }
        found
    }
}

/// The page with the results of `kept` in place of the text between its marks.
pub(crate) fn with(page: &str, mut kept: Vec<Kept>) -> Result<String, String> {
    let marked = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = marked.ok_or(format!("{PAGE} has lost its marks: {BEGIN} … {END}"))?;
    kept.sort_by(|one, other| (one.number(), &one.tier).cmp(&(other.number(), &other.tier)));
    let mut sections: Vec<String> = kept.iter().map(Kept::section).collect();
    if sections.is_empty() {
        sections.push("No run is kept yet.\n".to_owned());
    }
    let sections = sections.join("\n");
    Ok(format!("{before}{BEGIN}\n\n{sections}\n{END}{after}"))
}

fn words(of: &Value, name: &str) -> Result<String, String> {
    let words = of[name].as_str().ok_or(format!("`{name}` is no text"))?;
    Ok(words.to_owned())
}

fn number(of: &Value, name: &str) -> Result<u64, String> {
    let number = of[name].as_u64();
    number.ok_or(format!("`{name}` is no whole number"))
}

fn seconds(of: &Value) -> Result<f64, String> {
    let seconds = of["seconds"].as_f64();
    seconds.ok_or("`seconds` is no number".to_owned())
}

/// The counts of this name, which a report leaves out when they are empty.
fn counts(of: &Value, name: &str) -> Result<Vec<(String, u64)>, String> {
    let Some(counts) = of[name].as_object() else {
        return Ok(Vec::new());
    };
    let pair = |(kind, count): (&String, &Value)| {
        let count = count.as_u64().ok_or(format!("`{kind}` is no number"))?;
        Ok((kind.clone(), count))
    };
    counts.iter().map(pair).collect()
}

/// `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn time(seconds: f64) -> String {
    if seconds < 100.0 {
        format!("{seconds:.1} s")
    } else if seconds < 6000.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report of one row whose figures are 0, but for `figure`.
    pub(crate) fn report(figure: &str) -> String {
        let (name, value) = figure.split_once(": ").expect("a name and a value");
        let mut row = serde_json::json!({
            "name": "park", "tried": 2_500_000, "unit": "states", "duplicates": 0, "lost": 0,
            "doubts_explained": 3, "doubts_unexplained": 0, "fenced": 7, "takeovers": 9,
            "seconds": 1.0, "faults": { "crash": 1234 }, "seen": { "takeover": 9 },
        });
        row[name.trim_matches('"')] = serde_json::from_str(value).expect("a value");
        let report = serde_json::json!({
            "tier": "T1", "commit": "0123", "command": "cargo xtask prove T1",
            "rows": [row], "seconds": 7200.0,
        });
        report.to_string()
    }

    fn faults(report: &str) -> Vec<String> {
        Kept::read(report).expect("a report").faults()
    }

    #[test]
    fn what_speaks_against_a_report_is_said() {
        assert_eq!(faults(&report(r#""fenced": 1"#)), [""; 0]);
        for (figure, fault) in [
            (r#""tried": 0"#, "park: nothing was tried"),
            (r#""duplicates": 1"#, "park: 1 duplicates"),
            (r#""lost": 2"#, "park: 2 lost"),
            (
                r#""doubts_unexplained": 1"#,
                "park: 1 doubts without a cause",
            ),
            (r#""seen": {"takeover": 0}"#, "park: never seen: takeover"),
            (r#""violations": ["seed 7"]"#, "park: 1 broken promises"),
        ] {
            assert_eq!(faults(&report(figure)), [fault]);
        }
        let dirty = report(r#""lost": 0"#).replace("0123", "0123-dirty");
        assert_eq!(faults(&dirty), ["it is of no commit: 0123-dirty"]);
        assert!(Kept::read("{}").is_err());
        assert!(Kept::read(&report(r#""lost": "none""#)).is_err());
    }

    #[test]
    fn a_row_that_is_the_sum_of_the_others_is_not_added_to_them() {
        let mut kept = Kept::read(&report(r#""lost": 0"#)).expect("a report");
        let mut all = Kept::read(&report(r#""name": "all""#)).expect("a report");
        kept.rows.append(&mut all.rows);
        let section = kept.section();
        let line = "Faults that were dealt: crash 1,234.";
        assert!(section.lines().any(|it| it == line), "{section}");
    }

    #[test]
    fn a_long_sentence_is_wrapped_between_its_words() {
        let words = ["0123456789"; 30].join(" ");
        let wrapped = wrapped(&words);
        assert_eq!(wrapped.replace('\n', " "), words);
        let lengths: Vec<_> = wrapped.lines().map(str::len).collect();
        assert_eq!(lengths, [120, 120, 87]);
    }

    #[test]
    fn the_page_keeps_what_is_written_by_hand_and_replaces_the_rest() {
        let page = format!("# Proof\n\n{BEGIN}\nold\n{END}\n\n## Not tried yet\n");
        let one = || Kept::read(&report(r#""lost": 0"#)).expect("a report");
        let ten = Kept {
            tier: "T10".to_owned(),
            ..one()
        };
        let written = with(&page, vec![ten, one()]).expect("it has its marks");
        assert!(written.starts_with("# Proof\n") && written.ends_with("## Not tried yet\n"));
        assert!(!written.contains("old"));
        assert!(written.find("### T1\n") < written.find("### T10\n"));
        for line in [
            "`cargo xtask prove T1` on commit `0123` took 2.0 h.",
            "| park | 2,500,000 states | 0 | 0 | 3 | 0 | 7 | 9 | 1.0 s |",
            "Faults that were dealt: crash 1,234.",
            "Hard cases that were seen: takeover 9.",
        ] {
            assert!(written.lines().any(|it| it == line), "{line}\n{written}");
        }
        let twice = with(&written, vec![one()]).expect("it has its marks");
        assert_eq!(with(&twice, vec![one()]), Ok(twice));
        assert!(with("# Proof", Vec::new()).is_err());
    }
}
