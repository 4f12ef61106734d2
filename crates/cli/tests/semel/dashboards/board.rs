//! A dashboard as Grafana imports it.

use std::collections::BTreeSet;

use serde_json::Value;

pub(super) struct Board(Value);

impl Board {
    pub(super) fn all() -> Vec<Self> {
        let texts = [
            include_str!("../../../../../deploy/grafana/executive.json"),
            include_str!("../../../../../deploy/grafana/on-call.json"),
            include_str!("../../../../../deploy/grafana/debug.json"),
        ];
        texts
            .map(|text| Self(serde_json::from_str(text).expect("JSON")))
            .into()
    }

    pub(super) fn uid(&self) -> String {
        text(&self.0, "uid").to_owned()
    }

    fn panels(&self) -> &[Value] {
        self.0["panels"].as_array().expect("panels")
    }

    /// Each query with its panel, as Grafana sends it if everything is chosen.
    pub(super) fn queries(&self) -> Vec<(String, String)> {
        let of_panel = |panel: &Value| {
            let place = format!("{} / {}", text(&self.0, "title"), text(panel, "title"));
            let targets = panel["targets"].as_array().cloned().unwrap_or_default();
            targets
                .into_iter()
                .map(move |target| (place.clone(), filled(text(&target, "expr"))))
        };
        self.panels().iter().flat_map(of_panel).collect()
    }

    /// Asserts what an import and a reader need; `book` is the page that tells each panel.
    #[track_caller]
    pub(super) fn is_whole(&self, book: &str) {
        let board = &self.0;
        assert!(board["schemaVersion"].as_u64() >= Some(38), "Grafana 10");
        let variables = board["templating"]["list"].as_array().expect("variables");
        let names: Vec<_> = variables.iter().map(|it| text(it, "name")).collect();
        assert_eq!(names, ["datasource", "pipeline", "store"]);
        assert_eq!(variables[0]["type"], "datasource");
        let headings: BTreeSet<_> = book.lines().filter_map(anchor).collect();
        let (mut ids, mut titles, mut cells) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for panel in self.panels() {
            let title = text(panel, "title");
            assert!(ids.insert(panel["id"].as_u64()), "{title}: its id");
            let kind = text(panel, "type");
            assert!(
                titles.insert((title, kind == "row")),
                "{title} is there twice"
            );
            for cell in places(panel) {
                assert!(cell.0 < 24 && cells.insert(cell), "{title} overlaps");
            }
            match kind {
                "row" => assert!(headings.contains(&of_heading(title)), "{title}"),
                "text" => assert!(text(&panel["options"], "content").contains("semel keys")),
                _ => is_told(panel, &headings, book),
            }
        }
    }
}

/// Asserts that a panel says what it shows, in what unit, from which data, and where more is told.
#[track_caller]
fn is_told(panel: &Value, headings: &BTreeSet<String>, book: &str) {
    let title = text(panel, "title");
    let description = text(panel, "description");
    let url = text(&panel["links"][0], "url");
    let (page, heading) = url.split_once('#').expect("a heading");
    assert!(page.ends_with("/operations/dashboards.md"), "{url}");
    assert!(headings.contains(heading), "{title}: {heading}");
    assert!(description.contains(url), "{title}: {description}");
    assert!(
        book.contains(&format!("| {title} |")),
        "{title} is not in the book"
    );
    let defaults = &panel["fieldConfig"]["defaults"];
    assert!(!text(defaults, "unit").is_empty(), "{title}: no unit");
    assert!(defaults["thresholds"]["steps"][0]["color"].is_string());
    let targets = panel["targets"].as_array().expect("targets");
    assert!(!targets.is_empty(), "{title} asks nothing");
    for source in targets.iter().chain([panel]) {
        assert_eq!(source["datasource"]["uid"], "${datasource}", "{title}");
    }
}

/// The cells of the grid that a panel covers.
fn places(panel: &Value) -> impl Iterator<Item = (u64, u64)> {
    let [x, y, w, h] = ["x", "y", "w", "h"].map(|name| panel["gridPos"][name].as_u64());
    let (x, y) = (x.expect("x"), y.expect("y"));
    let (w, h) = (w.expect("w"), h.expect("h"));
    (x..x + w).flat_map(move |x| (y..y + h).map(move |y| (x, y)))
}

/// The names of series in a query.
pub(super) fn names(query: &str) -> impl Iterator<Item = &str> {
    let is_part = |part: char| part.is_ascii_alphanumeric() || part == '_' || part == ':';
    query.split(move |part| !is_part(part)).filter(|word| {
        word.starts_with("semel_")
            || word.starts_with("process_")
            || word.contains(":semel_")
            || *word == "ALERTS"
    })
}

/// A query with everything chosen. A rate is over all of a short run.
fn filled(query: &str) -> String {
    let all = [
        ("$pipeline", ".+"),
        ("$store", ".+"),
        ("$__rate_interval", "3m"),
        ("$__range", "3m"),
    ];
    let filled = all.iter().fold(query.to_owned(), |query, (name, value)| {
        query.replace(name, value)
    });
    assert!(!filled.contains('$'), "{filled}");
    filled
}

/// The anchor of a line that is a heading.
fn anchor(line: &str) -> Option<String> {
    let title = line.trim_start_matches('#');
    (title.len() < line.len()).then(|| of_heading(title.trim()))
}

fn of_heading(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

#[track_caller]
fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    let text = value[member].as_str();
    text.unwrap_or_else(|| panic!("no {member} in {value}"))
}
