use super::*;

const ALERT_TEXT: &str = "\
groups:
  - rules:
      - alert: SemelBusy
        expr: max by (pipeline, le) (semel_busy_total) > 1
        for: 2m
        labels: { severity: page, owner: operators }
        annotations:
          summary: busy
          description: very
          dashboard: semel-on-call
          runbook_url: https://example.org/docs/book/src/runbooks/busy.md
";
const PAGE: &str = "# SemelBusy\n\nA page. It is.\n\n## Symptom\n## Money\n## First look\n## Decide\n## Act\n## Verify\n";
const ROW: &str = "| [`SemelBusy`](../runbooks/busy.md) | page | above 1 | 2m |\n";
const TEST: &str = "\
- eval_time: 1m
  alertname: SemelBusy
  exp_alerts:
    - exp_labels: { severity: page }
- { eval_time: 0m, alertname: SemelBusy, exp_alerts: [] }
";

fn found(alert: &str, page: (&str, &str), row: &str, test: &str) -> Vec<String> {
    let page = (&*format!("{RUNBOOKS}{}", page.0), page.1);
    let list = (
        "docs/book/src/operations/status.md",
        "| `semel_busy_total` | |\n",
    );
    let test = ("deploy/prometheus/tests/a.yml", test);
    let files = [(ALERTS, alert), page, (TABLE, row), test, list];
    let found = check(&Tree::of(&files));
    found.into_iter().map(|finding| finding.message).collect()
}

#[test]
fn an_alert_has_a_runbook_a_row_and_tests() {
    let good = ("busy.md", PAGE);
    assert_eq!(found(ALERT_TEXT, good, ROW, TEST), [""; 0]);

    let other = found(ALERT_TEXT, ("other.md", PAGE), ROW, TEST);
    assert!(other[0].contains("there is no runbook"), "{other:?}");
    assert_eq!(other[1], "is the runbook of no alert");
    let short = PAGE
        .replace("## Money\n", "")
        .replace("# SemelBusy", "# Busy");
    let short = found(ALERT_TEXT, ("busy.md", &short), ROW, TEST);
    assert!(short[0].contains("the title of busy.md"), "{short:?}");
    assert!(short[1].contains("should have Symptom, Money"), "{short:?}");

    let other = PAGE.replace("A page.", "A ticket.");
    let other = found(ALERT_TEXT, ("busy.md", &other), ROW, TEST);
    assert!(other[0].contains("should open with `A page.`"), "{other:?}");

    for row in ["", &ROW.replace("page", "ticket"), &ROW.replace("2m", "3m")] {
        let untold = found(ALERT_TEXT, good, row, TEST);
        assert!(untold[0].contains("should have a row"), "{untold:?}");
    }
    let (firing, silent) = TEST.split_at(TEST.find("- {").expect("it is there"));
    let untested = found(ALERT_TEXT, good, ROW, firing);
    assert!(untested[0].contains("it is silent"), "{untested:?}");
    let untested = found(ALERT_TEXT, good, ROW, silent);
    assert!(untested[0].contains("it fires"), "{untested:?}");
    // What the next entry expects is not what this one does.
    let next = "- { eval_time: 1m, alertname: SemelBusy }\n\
                - { eval_time: 2m, alertname: SemelOther, exp_alerts: [] }\n";
    let untested = found(ALERT_TEXT, good, ROW, &format!("{firing}{next}"));
    assert!(untested[0].contains("it is silent"), "{untested:?}");
    assert_eq!(found("groups:", good, ROW, TEST), ["has no alert"]);
}

#[test]
fn an_alert_says_whose_it_is_and_has_no_label_of_a_key() {
    let with = |from: &str, to: &str| {
        let text = ALERT_TEXT.replace(from, to);
        found(&text, ("busy.md", PAGE), ROW, TEST)
    };
    let keys = with("by (pipeline, le)", "by (pipeline, key)");
    assert!(keys[0].contains("`key` is a label"), "{keys:?}");
    let keys = with("(semel_busy_total)", "(semel_busy_total and on (key) x)");
    assert!(keys[0].contains("`key` is a label"), "{keys:?}");
    assert!(with("          dashboard: semel-on-call\n", "")[0].contains("no `dashboard`"));
    assert!(with(", owner: operators", "")[0].contains("no `owner`"));
    for other in ["severity: info", "severity: pager"] {
        assert!(with("severity: page", other)[0].contains("neither"));
    }
    let first = |of: &str| {
        with(
            "summary: busy",
            &format!("summary: '{{{{ . | {of}first }}}}'"),
        )
    };
    assert!(first("")[0].contains("no order"));
    assert_eq!(first("sortByLabel \"owner\" | "), [""; 0]);
}
