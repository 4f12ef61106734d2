//! The alerts of a file of Prometheus rules, as far as a drill asks for them.

use semel_core::{Error, ErrorKind, Result};
use yaml_rust2::{Yaml, YamlLoader};

/// The alerts of a file of rules, in its order.
#[derive(Clone, Debug, Default)]
pub struct Alerts(Vec<Alert>);

/// One alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// Its condition.
    pub expr: String,
    /// The time for which its condition has to last.
    pub after: Option<String>,
    /// Its label `severity`; empty if there is none.
    pub severity: String,
    /// Its annotation `summary`; empty if there is none.
    pub summary: String,
    /// Its annotation `runbook_url`.
    pub runbook: Option<String>,
}

impl Alerts {
    /// Returns the alerts that Semel brings along.
    ///
    /// # Errors
    ///
    /// None: a test reads them.
    pub fn shipped() -> Result<Self> {
        Self::of("deploy/prometheus/alerts.yml", SHIPPED)
    }

    /// Reads the text of a file of rules that is called `name`.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: it is no YAML, or has no `groups`.
    pub fn of(name: &str, text: &str) -> Result<Self> {
        let refused = |why: String| {
            let message = format!(
                "{name}: {why}; name a file of Prometheus rules, as `promtool check rules` reads it"
            );
            Error::new(ErrorKind::InvalidInput, message)
        };
        let documents = YamlLoader::load_from_str(text).map_err(|it| refused(it.to_string()))?;
        let groups = documents.first().map(|it| &it["groups"]);
        let Some(groups) = groups.and_then(Yaml::as_vec) else {
            return Err(refused("it has no `groups`".to_owned()));
        };
        let rules = groups.iter().filter_map(|it| it["rules"].as_vec());
        Ok(Self(rules.flatten().filter_map(Alert::of).collect()))
    }

    /// Returns the alert of this name.
    pub fn named(&self, name: &str) -> Option<&Alert> {
        self.0.iter().find(|it| it.name == name)
    }
}

impl Alert {
    /// Returns the alert of a rule; none if the rule records a series.
    fn of(rule: &Yaml) -> Option<Self> {
        let text = |it: &Yaml| it.as_str().map(str::trim).unwrap_or_default().to_owned();
        let some = |it: &Yaml| Some(text(it)).filter(|it| !it.is_empty());
        Some(Self {
            name: rule["alert"].as_str()?.to_owned(),
            severity: text(&rule["labels"]["severity"]),
            summary: text(&rule["annotations"]["summary"]),
            expr: text(&rule["expr"]),
            after: some(&rule["for"]),
            runbook: some(&rule["annotations"]["runbook_url"]),
        })
    }

    /// Returns the summary with the name of a pipeline in the place of its label, and dots for what only Prometheus
    /// knows. Of alternatives, it says the first.
    pub(crate) fn summary_about(&self, pipeline: &str) -> String {
        let mut said = String::new();
        let (mut rest, mut is_other) = (&*self.summary, false);
        while let Some((before, after)) = rest.split_once("{{") {
            let (template, after) = after.split_once("}}").unwrap_or((after, ""));
            let template = template.trim_matches(['-', ' ']);
            let word = template.split(' ').next().unwrap_or_default();
            if !is_other {
                said.push_str(before);
            }
            match (word, template) {
                ("else", _) => is_other = true,
                ("end", _) => is_other = false,
                ("if" | "with", _) => {}
                (_, "$labels.pipeline" | ".") if !is_other => said.push_str(pipeline),
                _ if !is_other => said.push('…'),
                _ => {}
            }
            rest = after;
        }
        said.push_str(rest);
        said
    }
}

/// The file of alerts that Semel brings along.
const SHIPPED: &str = include_str!("../../../deploy/prometheus/alerts.yml");

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "groups:\n- name: a\n  rules:\n  - record: x\n    expr: y\n  - alert: Down\n    expr: up == 0\n    \
                         labels: {severity: page}\n    annotations:\n      summary: \"{{ $labels.pipeline }} is down for {{ $value }} s\"\n      \
                         runbook_url: https://example/down\n  - alert: Bare\n    expr: up == 0\n";

    #[test]
    fn alerts_are_read_with_what_they_say() {
        let alerts = Alerts::of("alerts.yml", RULES).expect("rules");
        let down = alerts.named("Down").expect("an alert");
        assert_eq!(down.severity, "page");
        assert_eq!(down.runbook.as_deref(), Some("https://example/down"));
        assert_eq!(down.summary_about("pay"), "pay is down for … s");
        let bare = alerts.named("Bare").expect("an alert");
        assert_eq!(
            (&*bare.severity, &*bare.summary, &bare.runbook),
            ("", "", &None)
        );
        assert!(alerts.named("x").is_none());
    }

    #[test]
    fn of_alternatives_the_first_is_said() {
        let alert = Alert {
            name: String::new(),
            expr: String::new(),
            after: None,
            severity: String::new(),
            summary: "{{ with $labels.pipeline }}{{ . }}: down{{ else }}{{ $labels.instance }}: away{{ end }}, now"
                .to_owned(),
            runbook: None,
        };
        assert_eq!(alert.summary_about("pay"), "pay: down, now");
    }

    #[test]
    fn the_shipped_alerts_say_what_to_do() {
        let alerts = Alerts::shipped().expect("rules");
        assert!(!alerts.0.is_empty());
        for alert in &alerts.0 {
            assert!(alert.runbook.is_some(), "{alert:?}");
            assert!(!alert.summary.is_empty(), "{alert:?}");
        }
    }

    #[test]
    fn what_has_no_rules_is_refused() {
        for text in ["", "a: [", "groups: 1", "{}"] {
            let error = Alerts::of("alerts.yml", text).expect_err("no rules");
            assert!(error.to_string().starts_with("alerts.yml: "), "{error}");
        }
        let empty = Alerts::of("alerts.yml", "groups: []").expect("rules");
        assert!(empty.named("Down").is_none());
    }
}
