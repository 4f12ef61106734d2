use crate::all_backends::ALL_BACKENDS;
use crate::{ConsoleSettings, Overrides, Settings};

fn read(text: &str) -> Result<ConsoleSettings, Vec<String>> {
    read_with(text, &[])
}

fn read_with(text: &str, variables: &[(&str, &str)]) -> Result<ConsoleSettings, Vec<String>> {
    let text =
        format!("[admin]\nlisten = '127.0.0.1:9464'\n[claims]\nlisten = '127.0.0.1:8181'\n{text}");
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let read = Settings::of(
        "semel.toml",
        &text,
        variables,
        &Overrides::default(),
        ALL_BACKENDS,
    );
    let faults = |faults: Vec<crate::Fault>| faults.iter().map(ToString::to_string).collect();
    read.map(|it| it.console).map_err(faults)
}

#[test]
fn nothing_is_hidden_and_viewers_see_no_payload_by_default() {
    for text in ["", "[console]\n", "[console]\nmask = []\n"] {
        let console = read(text).expect("sound settings");
        assert!(console.mask.is_empty() && !console.viewers_see_payloads);
    }
    let console = read("[console]\nmask = ['iban', '/card/number']\nviewers_see_payloads = true\n");
    let console = console.expect("sound settings");
    assert!(console.viewers_see_payloads);
    let shown = console.mask.apply(r#"{"iban":1,"card":{"number":2}}"#);
    assert_eq!(
        shown.as_deref(),
        Some(r#"{"iban":"***","card":{"number":"***"}}"#)
    );
}

#[test]
fn what_is_no_member_is_refused_and_nothing_is_shown_instead() {
    for member in [
        "",
        "$.iban",
        "card.number",
        "/a~2",
        "iban,pan",
        "/items/*/iban",
    ] {
        let faults = read(&format!("[console]\nmask = ['iban', '{member}']\n"));
        let faults = faults.expect_err("it is no member");
        assert!(
            matches!(&*faults, [it] if it.contains("console.mask: ")),
            "{faults:?}"
        );
    }
}

#[test]
fn a_variable_that_is_no_list_hides_nothing_by_mistake() {
    let with = |value| read_with("", &[("SEMEL__CONSOLE__MASK", value)]);
    let console = with(r#"["iban", "/card"]"#).expect("a list");
    assert!(console.mask.has_name("iban"));
    for value in ["[iban, pan]", "iban,pan"] {
        with(value).expect_err(value);
    }
}
