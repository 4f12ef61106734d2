//! Windows: for how long each pipeline remembers, and for how long it has to.

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::Value;

use super::overview::is_relay;
use crate::api::Api;
use crate::form::Form;
use crate::layout::{Place, page, refused};
use crate::plot::{Selection, Unit, lines, plot};
use crate::text::{foreign, list, shown, text};

/// Shows the windows.
pub(crate) async fn show(State(api): State<Api>, head: Parts) -> Response {
    let caller = match Form::of_query(&head) {
        Ok((caller, _)) => caller,
        Err(problem) => return problem.into_response(),
    };
    let pipelines = match api.get(&caller, "/v1/pipelines", &[]).await {
        Ok(pipelines) => pipelines,
        Err(refusal) => return refused(&caller, Place::Window, &refusal),
    };
    let all = list(&pipelines, "items").iter();
    // A relay remembers nothing.
    let pipelines: Vec<_> = all.filter(|it| !is_relay(it)).collect();
    let again = super::series(&api, &caller, ["semel_expired_again_total"]).await;
    let content = html! {
        h1 { "Window" }
        p {
            "A duplicate is known for as long as its key is remembered. The window has to be longer than a message can "
            "come again."
        }
        div.wide tabindex="0" role="region" aria-label="The window of each pipeline" { table {
            caption.hidden { "The window of each pipeline" }
            thead { tr {
                th scope="col" { "Pipeline" } th scope="col" { "Window" } th scope="col" { "Needed" }
                th scope="col" { "Margin" } th scope="col" { "Verdict" }
            } }
            tbody {
                @for pipeline in &pipelines { (row(pipeline)) }
            }
        } }
        @for pipeline in &pipelines { (broker(pipeline)) }
        div.plots data-refresh="plots-window" {
            @for pipeline in &pipelines {
                @let name = text(pipeline, "pipeline");
                @let of = Selection {
                    family: "semel_expired_again_total",
                    pipeline: name,
                    label: "certainty",
                };
                (plot(&format!("{name}: begun again after the window"), Unit::PerSecond, &lines(&again, of)))
            }
        }
    };
    page(&caller, Place::Window, "Window", &content)
}

fn row(pipeline: &Value) -> Markup {
    let set = seconds(text(pipeline, "window"));
    let needed = text(pipeline, "window_needed");
    let (margin, verdict, kind) = match (set, needed, seconds(needed)) {
        (_, "endless", _) => (None, "a message can come again for ever", "bad"),
        (Some(set), _, Some(needed)) if set >= needed => {
            (Some(set - needed), "long enough", "good")
        }
        (Some(_), _, Some(_)) => (None, "too short", "bad"),
        _ => (None, "not known", "plain"),
    };
    html! {
        tr {
            th scope="row" { (text(pipeline, "pipeline")) }
            td { (shown(&pipeline["window"])) }
            td { (shown(&pipeline["window_needed"])) }
            td { (margin.map_or("–".to_owned(), duration)) }
            td { span.state.(kind) { (verdict) } }
        }
    }
}

/// The settings of the broker of a pipeline, from which the time follows that is needed.
fn broker(pipeline: &Value) -> Markup {
    let (settings, name) = (list(pipeline, "broker"), text(pipeline, "pipeline"));
    html! {
        @if !settings.is_empty() {
            h2 { "The broker of " (foreign(name)) }
            div.wide tabindex="0" role="region" aria-label={ "Settings of the broker of " (name) } { table {
                caption.hidden { "Settings of the broker of " (name) }
                thead { tr { th scope="col" { "Setting" } th scope="col" { "Value" } th scope="col" { "So" } } }
                tbody {
                    @for setting in settings {
                        tr {
                            th scope="row" { (foreign(text(setting, "setting"))) }
                            td { (foreign(text(setting, "value"))) }
                            td { (foreign(text(setting, "meaning"))) }
                        }
                    }
                }
            } }
        }
    }
}

/// Reads a duration as the configuration writes it.
fn seconds(text: &str) -> Option<f64> {
    let units = [
        ("ms", 0.001),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3_600.0),
        ("d", 86_400.0),
    ];
    let mut units = units.into_iter();
    units.find_map(|(unit, secs)| {
        let count: u32 = text.strip_suffix(unit)?.parse().ok()?;
        Some(f64::from(count) * secs)
    })
}

/// A time in the largest unit of which there are two at least.
fn duration(secs: f64) -> String {
    let units = [("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)];
    let mut units = units.into_iter();
    let found = units.find(|(_, length)| secs >= 2.0 * length);
    found.map_or_else(
        || format!("{secs:.0} seconds"),
        |(unit, length)| format!("{:.0} {unit}", (secs / length).floor()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_they_are_written() {
        for (text, secs) in [
            ("72h", 259_200.0),
            ("7d", 604_800.0),
            ("500ms", 0.5),
            ("90s", 90.0),
            ("5m", 300.0),
        ] {
            let read = seconds(text).expect("a duration");
            assert!((read - secs).abs() < 1e-9, "{text}: {read}");
        }
        assert_eq!(seconds("endless"), None);
        assert_eq!(seconds(""), None);
        assert_eq!(duration(259_200.0), "3 days");
        assert_eq!(duration(100_000.0), "27 hours");
        assert_eq!(duration(10.0), "10 seconds");
    }
}
