//! The `effect` of a pipeline, and the class that it claims.

use std::time::Duration;

use semel_core::select::Selector;
use semel_engine::effect::{Class, OnDoubt};
use semel_worker::effect::exec::Settings as ExecSettings;
use semel_worker::effect::http::Settings as HttpSettings;
use semel_worker::effect::jsonl::Settings as JsonlSettings;
use semel_worker::effect::{ExecEffect, SqlBinding};
use semel_worker::settings::{EffectSettings, within_provider_window};

use super::fields::{Fields, suggestion};
use super::settings::StoreUrl;

/// Reads the effect.
pub(super) fn read(fields: &mut Fields<'_>, store: Option<&StoreUrl>) -> Option<EffectSettings> {
    let Some(mut effect) = fields.sub("effect") else {
        if fields.node("effect").is_none() {
            fields.missing("effect");
        }
        return None;
    };
    let kind = effect.required_text("kind")?;
    let read = match kind {
        "sql" => sql(&mut effect, store),
        "file" => file(&mut effect),
        "http" => http(&mut effect),
        "exec" => exec(&mut effect),
        "stdout" => Some(EffectSettings::Stdout(unkeyed(&mut effect))),
        "kafka" | "nats" | "amqp" => {
            if let Some(node) = effect.node("kind") {
                let message = format!("`{kind}` effects are not supported by this release");
                effect.unsupported("kind", node, message);
            }
            return None;
        }
        _ => {
            let hint = suggestion(kind, &["sql", "file", "http", "exec", "stdout"]);
            fault(
                &mut effect,
                "kind",
                format!("`{kind}` is no kind of effect; {hint}"),
            );
            return None;
        }
    };
    effect.finish();
    read
}

fn sql(effect: &mut Fields<'_>, store: Option<&StoreUrl>) -> Option<EffectSettings> {
    transactional(effect);
    if store.is_some_and(|store| !store.is_transactional()) {
        let message = "`sql` runs in the store's own transaction; point the store at a database, \
                       as in `sqlite:./data.db`";
        fault(effect, "kind", message);
    }
    let one: Option<Vec<String>> = effect.one_or_many("statement");
    let many: Option<Vec<String>> = effect.one_or_many("statements");
    let params = params(effect);
    let statements = match (one, many) {
        (Some(statements), None) | (None, Some(statements)) => statements,
        (Some(_), Some(_)) => {
            fault(
                effect,
                "statements",
                "either `statement` or `statements`, not both",
            );
            return None;
        }
        (None, None) => {
            if effect.node("statement").is_none() && effect.node("statements").is_none() {
                effect.missing("statement");
            }
            return None;
        }
    };
    match SqlBinding::new(&statements, params) {
        Ok(binding) => Some(EffectSettings::Sql(binding)),
        Err(error) => {
            let name = if effect.node("statement").is_some() {
                "statement"
            } else {
                "statements"
            };
            fault(effect, name, error.to_string());
            None
        }
    }
}

fn params(effect: &mut Fields<'_>) -> Vec<(String, Selector)> {
    let Some(params) = effect.sub("params") else {
        return Vec::new();
    };
    let mut read = Vec::new();
    for (name, node) in params.entries() {
        let super::tree::Value::Text(text) = &node.value else {
            params.fault(
                name,
                node,
                format!("must be a selector, not {}", node.value.noun()),
            );
            continue;
        };
        match text.parse() {
            Ok(selector) => read.push((name.clone(), selector)),
            Err(error) => params.fault(name, node, format!("{error}")),
        }
    }
    read
}

fn file(effect: &mut Fields<'_>) -> Option<EffectSettings> {
    transactional(effect);
    effect
        .required_text("path")
        .map(|path| EffectSettings::File { path: path.into() })
}

fn http(effect: &mut Fields<'_>) -> Option<EffectSettings> {
    let class = external(effect);
    let timeout = timeout(effect);
    let method = effect.text("method").unwrap_or("POST").to_owned();
    let url_file = effect.parsed_with("url_file", |path| {
        std::fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .map_err(|error| format!("cannot read `{path}`: {error}"))
    });
    let url = effect.text("url").map(str::to_owned);
    let headers = effect.sub("headers").map(|headers| {
        let entries = headers
            .entries()
            .filter_map(|(name, node)| match &node.value {
                super::tree::Value::Text(text) => Some((name.clone(), text.clone())),
                value => {
                    headers.fault(
                        name,
                        node,
                        format!("must be a string, not {}", value.noun()),
                    );
                    None
                }
            });
        entries.collect::<Vec<_>>()
    });
    if effect.node("url_file").is_some() {
        fault(effect, "url", "either `url` or `url_file`, not both");
    }
    let Some(url) = url.or(url_file) else {
        if effect.node("url").is_none() && effect.node("url_file").is_none() {
            effect.missing("url");
        }
        return None;
    };
    let mut settings = HttpSettings::new(url);
    settings.method = method;
    settings.timeout = timeout;
    settings.headers = headers.unwrap_or_default();
    if let Err(error) = settings.validate() {
        let text = error.to_string();
        let (setting, message) = text.split_once(": ").unwrap_or(("url", &text));
        match setting {
            "method" => fault(effect, "method", message),
            "url" if effect.node("url").is_some() => fault(effect, "url", message),
            "url" => fault(effect, "url_file", message),
            _ => fault(effect, "headers", text),
        }
    }
    Some(EffectSettings::Http(settings, class?))
}

fn exec(effect: &mut Fields<'_>) -> Option<EffectSettings> {
    let class = external(effect);
    let timeout = timeout(effect);
    let jsonl = effect
        .choice("protocol", &[("stdin", false), ("jsonl", true)])
        .unwrap_or(false);
    match effect.node("command").map(|node| &node.value) {
        None => effect.missing("command"),
        Some(super::tree::Value::Text(text)) => {
            let words: Vec<_> = text.split_whitespace().collect();
            fault(
                effect,
                "command",
                format!("must be a list, as in {words:?}"),
            );
            return None;
        }
        Some(_) => {}
    }
    let command: Option<Vec<String>> = effect.one_or_many("command");
    let command = command?;
    if let Err(error) = ExecEffect::new(ExecSettings::new(command.clone())) {
        let text = error.to_string();
        fault(
            effect,
            "command",
            text.strip_prefix("command: ").unwrap_or(&text),
        );
    }
    let class = class?;
    Some(if jsonl {
        let mut settings = JsonlSettings::new(command);
        settings.timeout = timeout;
        EffectSettings::Jsonl(settings, class)
    } else {
        let mut settings = ExecSettings::new(command);
        settings.timeout = timeout;
        EffectSettings::Exec(settings, class)
    })
}

/// The class of an effect outside the store, as declared.
fn external(effect: &mut Fields<'_>) -> Option<Class> {
    let is_keyed = effect.choice("class", &[("keyed", true), ("unkeyed", false)]);
    if effect.node("class").is_some() && is_keyed.is_none() {
        return None;
    }
    if is_keyed != Some(true) {
        if effect.node("provider_window").is_some() {
            fault(effect, "provider_window", "belongs to `class = \"keyed\"`");
        }
        return Some(unkeyed(effect));
    }
    if effect.node("on_doubt").is_some() {
        fault(
            effect,
            "on_doubt",
            "belongs to `class = \"unkeyed\"`; a keyed effect is repeated \
                                   inside its provider's window and in doubt past it",
        );
    }
    if effect.node("provider_window").is_none() {
        effect.missing("provider_window");
    }
    let provider_window = effect.duration("provider_window")?;
    if provider_window.is_zero() {
        fault(effect, "provider_window", "must be longer than zero");
    }
    Some(Class::Keyed {
        provider_window: within_provider_window(provider_window),
    })
}

fn unkeyed(effect: &mut Fields<'_>) -> Class {
    effect.choice("class", &[("unkeyed", ())]);
    let on_doubt = effect
        .choice(
            "on_doubt",
            &[("park", OnDoubt::Park), ("repeat", OnDoubt::Repeat)],
        )
        .unwrap_or(OnDoubt::Park);
    Class::Unkeyed(on_doubt)
}

/// An effect inside the store's proof may say so, and nothing else.
fn transactional(effect: &mut Fields<'_>) {
    effect.choice("class", &[("transactional", ())]);
    for name in ["on_doubt", "provider_window"] {
        if effect.node(name).is_some() {
            fault(
                effect,
                name,
                "does not apply: this effect commits together with its record",
            );
        }
    }
}

fn timeout(effect: &mut Fields<'_>) -> Duration {
    let timeout = effect
        .duration("timeout")
        .unwrap_or(Duration::from_secs(30));
    if timeout.is_zero() {
        fault(effect, "timeout", "must be longer than zero");
    }
    timeout
}

fn fault(effect: &mut Fields<'_>, name: &'static str, message: impl Into<String>) {
    if let Some(node) = effect.node(name) {
        effect.fault(name, node, message);
    }
}
