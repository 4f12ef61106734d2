//! Two thousand doubts, resolved in selections on a page while somebody else resolves some of them over the API.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::driver::Browser;
use crate::admin::access::token;
use crate::admin::orders::Ordered;
use crate::site::wait_for;

/// The rows that are selected on the page at the moment.
const SELECTED: &str =
    "return [...document.querySelectorAll('tbody input:checked')].map(it => it.value);";

#[test]
fn two_thousand_doubts_are_resolved_once_each_beside_somebody_else() {
    let ordered = Ordered::start("embedded:data", "0.0.0.0");
    let [ada, bob] =
        ["ada", "bob"].map(|it| token(&ordered.site, &format!("{it} --role operator")));
    let all = json!({ "all": true, "verdict": "applied" });
    wait_for("the tokens", || {
        let plan = |token: &String| ordered.post("/v1/in-doubt/resolve/plan", &all, token);
        [&ada, &bob].iter().all(|it| plan(it).status == 200)
    });
    ordered.doubt(0, 2_000);

    let browser = Browser::start(&ordered.site);
    let open = |path: &str| browser.open(&format!("http://127.0.0.1:{}{path}", ordered.admin));
    open("/in-doubt");
    browser.fill("#token", ada.strip_prefix("Bearer ").expect("a token"));
    browser.submit("main form button");

    // Who resolved which one, as it was said.
    let mut resolved = BTreeMap::new();
    let mut left = 2_000;
    while left > 0 {
        open("/in-doubt");
        shows(&browser, &format!("{} in doubt", grouped(left)));
        let round = resolved.len();
        // The oldest ones one by one, the rest in one statement.
        let is_by_rows = left > 1_400;
        let chosen = if is_by_rows {
            browser.click("thead input");
            browser.click("#applied-one");
            browser.fill("#outcome-one", &format!("charged in round {round}"));
            let chosen = texts(&browser.run(SELECTED));
            assert_eq!(chosen.len(), 200);
            browser.submit("form:has(table) button.primary");
            chosen
        } else {
            browser.run("document.querySelector('details').open = true;");
            browser.click("#abandon-all");
            browser.submit("details button.primary");
            ordered.in_doubt()
        };
        let count = chosen.len();
        shows(&browser, &format!("Resolve {} changes", grouped(count)));

        // Bob is quicker with some of them.
        let of_bob = &chosen[..count / 20];
        let order = json!({ "ids": of_bob, "verdict": "applied" });
        let plan = ordered.plan(&order, of_bob.len(), &bob);
        assert_eq!(ordered.carry_out(&plan, &bob).status, 200);
        let rest = count - of_bob.len();
        left -= of_bob.len();

        let token = browser.run("return document.querySelector('[name=token]').value;");
        confirm(&browser);
        shows(
            &browser,
            "Something has changed since this was planned, and nothing was done",
        );
        shows(&browser, &format!("Resolve {} changes", grouped(rest)));
        assert_eq!(rows(&browser), rest, "those of the new plan");
        assert_eq!(ordered.in_doubt().len(), left, "nothing was done");
        confirm(&browser);
        shows(
            &browser,
            &format!("{0} of {0} changes done.", grouped(rest)),
        );
        left -= rest;

        // The page that gave the order is sent once more, and then the very first plan.
        browser.run("window.isBefore = true; location.reload();");
        browser.wait("!window.isBefore && document.readyState === 'complete'");
        shows(&browser, "Nothing would change.");
        let stale = json!({ "token": token, "reason": "once more" });
        let stale = ordered.post("/v1/in-doubt/resolve/do", &stale, &ada);
        stale.is_problem(409, "plan-stale");
        assert_eq!(stale.body["changes"], json!([]));
        assert_eq!(ordered.in_doubt().len(), left, "nothing is done twice");

        let by = |at| match (at < of_bob.len(), is_by_rows) {
            (true, _) => ("bob", "resolve-applied"),
            (false, true) => ("ada", "resolve-applied"),
            (false, false) => ("ada", "abandon"),
        };
        for (at, id) in chosen.iter().enumerate() {
            assert!(
                resolved.insert(id.clone(), by(at)).is_none(),
                "it was in doubt twice"
            );
        }
    }
    open("/in-doubt");
    shows(&browser, "Nothing is in doubt.");

    let audit = ordered.audit(&ada);
    assert_eq!(audit.len(), 2_000, "one entry for each change");
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    for entry in &audit {
        let expected = resolved.remove(&text(entry, "operation_id"));
        let found = [text(entry, "by"), text(entry, "action")];
        assert_eq!(
            expected.map(|(by, action)| [by.to_owned(), action.to_owned()]),
            Some(found),
            "{entry}"
        );
        assert!(!text(entry, "reason").is_empty(), "{entry}");
    }
    assert!(resolved.is_empty(), "{resolved:?}");
}

/// Confirms the plan that is shown.
fn confirm(browser: &Browser) {
    // The reason of a plan that is stale is still there.
    browser.run("document.getElementById('reason').value = '';");
    browser.fill("#reason", "found at the provider");
    browser.submit("form.confirm button");
}

#[track_caller]
fn shows(browser: &Browser, text: &str) {
    let shown = browser.text();
    let begin: String = shown.chars().take(2_000).collect();
    assert!(shown.contains(text), "no {text:?}: {begin}");
}

/// The number of rows of the table that is shown.
fn rows(browser: &Browser) -> usize {
    let count = browser.run("return document.querySelectorAll('tbody tr').length;");
    usize::try_from(count.as_u64().expect("a number")).expect("few")
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts
        .map(|it| it.as_str().expect("a text").to_owned())
        .collect()
}

/// A number as the page has it.
fn grouped(number: usize) -> String {
    if number < 1_000 {
        return number.to_string();
    }
    format!("{}\u{202f}{:03}", number / 1_000, number % 1_000)
}
