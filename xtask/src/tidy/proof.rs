//! The book's page of proof agrees with the kept results, and only results that stand are kept.

use crate::prove::page::{KEPT, Kept, PAGE, with};
use crate::tree::Tree;

use super::Finding;

/// Reads the results, and writes the page once more to compare.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut kept = Vec::new();
    for (path, text) in tree.texts(KEPT, ".json") {
        match Kept::read(text) {
            Ok(report) => {
                let faults = report.faults();
                findings.extend(faults.iter().map(|it| Finding::error(path, 0, it)));
                if path != format!("{KEPT}{}.json", report.tier) {
                    let message = format!("is about {}", report.tier);
                    findings.push(Finding::error(path, 0, message));
                }
                kept.push(report);
            }
            Err(why) => findings.push(Finding::error(path, 0, why)),
        }
    }
    let page = tree.text(PAGE).unwrap_or_default();
    match with(page, kept) {
        Ok(expected) if expected == page => {}
        Ok(_) => {
            let message = format!("differs from {KEPT}: `cargo xtask prove --page` writes it");
            findings.push(Finding::error(PAGE, 0, message));
        }
        Err(why) => findings.push(Finding::error(PAGE, 0, why)),
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::prove::page::tests::report;

    use super::*;

    fn found(page: &str, results: &[(&str, &str)]) -> Vec<String> {
        let mut files = vec![(PAGE, page)];
        files.extend(results);
        let found = check(&Tree::of(&files));
        found.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn the_page_and_the_results_agree() {
        let stands = report(r#""lost": 0"#);
        let empty = "<!-- What follows is written by `cargo xtask prove --keep`. -->\
                     <!-- What follows is written by hand. -->";
        let page = |results: &[&str]| {
            let kept = results.iter().map(|it| Kept::read(it).expect("a report"));
            with(empty, kept.collect()).expect("it has its marks")
        };
        let (none, one) = (page(&[]), page(&[&stands]));
        let here = "proof/results/T1.json";
        assert_eq!(found(&none, &[]), [""; 0]);
        assert_eq!(found(&one, &[(here, &stands)]), [""; 0]);

        let differs = "differs from proof/results/: `cargo xtask prove --page` writes it";
        assert_eq!(found(&none, &[(here, &stands)]), [differs]);
        assert_eq!(found(&one, &[]), [differs]);
        assert_eq!(found("", &[]).len(), 1);

        let elsewhere = found(&one, &[("proof/results/T2.json", &stands)]);
        assert_eq!(elsewhere, ["is about T1"]);
        let failed = report(r#""lost": 1"#);
        let lost = found(&page(&[&failed]), &[(here, &failed)]);
        assert_eq!(lost, ["park: 1 lost"]);
        assert_eq!(found(&none, &[(here, "{")]).len(), 1);
    }
}
