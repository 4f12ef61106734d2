//! The `effect` of a pipeline, and the class that it claims.

use std::time::Duration;

use semel_core::sql::Dialect;
use semel_engine::effect::{Class, OnDoubt};
use semel_worker::effect::exec::Settings as ExecSettings;
use semel_worker::effect::http::{Decisive, Settings as HttpSettings};
use semel_worker::effect::jsonl::Settings as JsonlSettings;
use semel_worker::effect::publish::{Promise, Settings as PublishSettings};
use semel_worker::effect::{ExecEffect, SqlBinding};
use semel_worker::settings::EffectSettings;

use super::fields::Fields;
use super::node::Value;
use super::refusal::selector;
use super::sink::{self, TargetOf};
use super::source::SourceSettings;
use super::store::StoreUrl;
use super::streamed;
use super::suggestion::suggestion;

/// Reads the effect.
pub(super) fn read(
    fields: &mut Fields<'_>,
    pipeline: &str,
    store: Option<&StoreUrl>,
    source: Option<&SourceSettings>,
    target: TargetOf,
) -> Option<EffectSettings> {
    let mut effect = fields.required_sub("effect")?;
    let kind = effect.required_text("kind")?;
    let read = match kind {
        "sql" => sql(&mut effect, store),
        "file" => file(&mut effect, store),
        "http" => http(&mut effect),
        "exec" => exec(&mut effect),
        "stdout" => {
            effect.choice_or("class", ("unkeyed", ()), &[]);
            Some(EffectSettings::Stdout(unkeyed(&mut effect)))
        }
        "kafka" if effect.text("class") == Some("streamed") => {
            streamed::read(&mut effect, pipeline, source)
        }
        "kafka" | "nats" | "amqp" => publish(kind, &mut effect, target),
        _ => {
            let kinds = [&["sql", "file", "http", "exec", "stdout"][..], &sink::KINDS].concat();
            let hint = suggestion(kind, &kinds);
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
                       as in `sqlite:./data.db` or `postgres://…`";
        fault(effect, "kind", message);
    }
    let one = effect.one_or_many("statement", str::parse::<String>);
    let many = effect.one_or_many("statements", str::parse::<String>);
    let params = effect.optional_sub("params");
    let chosen = params
        .as_ref()
        .map_or_else(Vec::new, |params| params.text_entries(selector));
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
            if !effect.is_written("statement") && !effect.is_written("statements") {
                effect.missing("statement");
            }
            return None;
        }
    };
    let dialect = store.and_then(StoreUrl::dialect);
    // Whatever the statements are, the store itself is refused.
    let dialect = dialect.unwrap_or(Dialect::Sqlite);
    match SqlBinding::new(dialect, &statements, chosen) {
        Ok(binding) => {
            if let Some(params) = &params {
                show(params, &binding);
            }
            Some(EffectSettings::Sql(binding))
        }
        Err(error) => {
            let is_one = effect.is_written("statement");
            let name = if is_one { "statement" } else { "statements" };
            fault(effect, name, error.to_string());
            None
        }
    }
}

/// Shows every placeholder with its selector, written or not.
fn show(params: &Fields<'_>, binding: &SqlBinding) {
    let names = &binding.statements().params;
    for (name, selector) in names.iter().zip(binding.selectors()) {
        let is_its = |written: &str| written.strip_prefix(':').unwrap_or(written) == &**name;
        let node = params.entries().find(|(written, _)| is_its(written));
        params.show_entry(name, node.map(|(_, node)| node), selector.to_string());
    }
}

fn file(effect: &mut Fields<'_>, store: Option<&StoreUrl>) -> Option<EffectSettings> {
    transactional(effect);
    if store.is_some_and(|store| !store.keeps_marks()) {
        let message = "`file` needs a store that writes the length of the output together with its \
                       records, which Redis cannot; use `embedded:`, `sqlite:`, `postgres:` or `mysql:`";
        fault(effect, "kind", message);
    }
    effect
        .required_path("path")
        .map(|path| EffectSettings::File { path })
}

fn publish(kind: &str, effect: &mut Fields<'_>, target: TargetOf) -> Option<EffectSettings> {
    // Of these, only NATS drops repeats by itself, and tells for how long.
    let promise = promise(effect, kind == "nats");
    let has_id_header = kind != "kafka" || id_header(effect, promise);
    let place = sink::read(kind, effect, has_id_header)?;
    Some(EffectSettings::Publish(PublishSettings {
        target: target(place),
        promise: promise?,
    }))
}

/// Reads `id_header`, which sends the id of a message with it.
fn id_header(effect: &mut Fields<'_>, promise: Option<Promise>) -> bool {
    let is_wanted = effect.boolean_or("id_header", true);
    if !is_wanted && matches!(promise, Some(Promise::Keyed { .. })) {
        let message = "whoever reads drops a second message by its id, which is what `class = \"keyed\"` \
                       rests on; leave the id in, or choose another class";
        fault(effect, "id_header", message);
    }
    is_wanted
}

fn http(effect: &mut Fields<'_>) -> Option<EffectSettings> {
    let provider = provider(effect);
    let class = external(effect, provider);
    let mut settings = HttpSettings::new("");
    settings.is_keyed = matches!(class, Some(Class::Keyed { .. }));
    settings.decisive = decisive(effect, provider);
    let settings = request(effect, settings)?;
    Some(EffectSettings::Http(settings, class?))
}

/// Reads the place of requests and their form.
pub(super) fn request(effect: &mut Fields<'_>, mut settings: HttpSettings) -> Option<HttpSettings> {
    settings.timeout = timeout(effect, settings.timeout);
    if let Some(method) = effect.text("method") {
        method.clone_into(&mut settings.method);
    }
    effect.default("method", settings.method.clone());
    let url = effect.text("url").map(str::to_owned);
    let url = url.or(effect.secret_file("url_file", "url", str::parse::<String>));
    if let Some(headers) = effect.optional_sub("headers") {
        settings.headers = headers.text_entries(str::parse::<String>);
        for (name, node) in headers.entries() {
            headers.show_entry(name, Some(node), "***".to_owned());
        }
    }
    if effect.is_written("url_file") {
        fault(effect, "url", "either `url` or `url_file`, not both");
    } else if !effect.is_written("url") {
        effect.missing("url");
    }
    settings.url = url?;
    if let Err(error) = settings.validate() {
        let text = error.to_string();
        let (setting, message) = text.split_once(": ").unwrap_or(("url", &text));
        match setting {
            "method" => fault(effect, "method", message),
            "url" if effect.is_written("url") => fault(effect, "url", message),
            "url" => fault(effect, "url_file", message),
            _ => fault(effect, "headers", text),
        }
    }
    Some(settings)
}

fn exec(effect: &mut Fields<'_>) -> Option<EffectSettings> {
    let class = external(effect, None);
    let is_jsonl = effect.choice_or("protocol", ("stdin", false), &[("jsonl", true)]);
    let mut jsonl = JsonlSettings::new(Vec::new());
    let mut exec = ExecSettings::new(Vec::new());
    if is_jsonl {
        jsonl.timeout = timeout(effect, jsonl.timeout);
        let message = "belongs to a command per message; an answer line says so itself, as in \
                       {\"status\": \"dead\", \"decisive\": true}";
        effect.reject("decisive", message);
    } else {
        exec.timeout = timeout(effect, exec.timeout);
        exec.decisive = effect.boolean_or("decisive", false);
    }
    match effect.node("command").map(|node| &node.value) {
        None => effect.missing("command"),
        Some(Value::Text(text)) => {
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
    exec.command = effect.command()?;
    jsonl.command.clone_from(&exec.command);
    if let Err(error) = ExecEffect::new(exec.clone()) {
        let text = error.to_string();
        fault(
            effect,
            "command",
            text.strip_prefix("command: ").unwrap_or(&text),
        );
    }
    let class = class?;
    Some(if is_jsonl {
        EffectSettings::Jsonl(jsonl, class)
    } else {
        EffectSettings::Exec(exec, class)
    })
}

/// Reads the known provider that is named, if there is one.
fn provider(effect: &mut Fields<'_>) -> Option<&'static Provider> {
    let name = effect.text("provider")?;
    let known = PROVIDERS.iter().find(|provider| provider.name == name);
    if known.is_none() {
        let names: Vec<_> = PROVIDERS.iter().map(|provider| provider.name).collect();
        let hint = suggestion(name, &names);
        fault(
            effect,
            "provider",
            format!(
                "nothing is known of `{name}`; {hint} (or say `class`, \
                 `provider_window` and `decisive` instead)"
            ),
        );
    }
    known
}

/// Reads the refusals that are decisive about the earlier attempts as well.
fn decisive(effect: &mut Fields<'_>, provider: Option<&Provider>) -> Decisive {
    let known = provider.map_or_else(Decisive::default, |provider| {
        Decisive::parse(provider.decisive).unwrap_or_default()
    });
    let Some(text) = effect.text("decisive") else {
        if provider.is_some() {
            effect.default("decisive", known.to_string());
        }
        return known;
    };
    match Decisive::parse(text) {
        Ok(codes) => codes.with(&known),
        Err(error) => {
            fault(effect, "decisive", error.to_string());
            known
        }
    }
}

/// Reads the class of an effect outside the store: the declared one, or the one of its known provider.
fn external(effect: &mut Fields<'_>, provider: Option<&Provider>) -> Option<Class> {
    let Some(provider) = provider else {
        return promise(effect, false).map(Promise::class);
    };
    // The provider recognises keys, so no other class is possible.
    if effect.choice("class", ("keyed", true), &[]).is_none() {
        effect.ignore(&["on_doubt", "provider_window"]);
        return None;
    }
    effect.reject(
        "on_doubt",
        "belongs to `class = \"unkeyed\"`; a keyed effect is repeated \
         inside its provider's window and in doubt past it",
    );
    let provider_window = effect.duration_or("provider_window", provider.window);
    if provider_window.is_zero() {
        fault(effect, "provider_window", "must be longer than zero");
    }
    Some(Class::Keyed { provider_window })
}

/// Reads the class; `is_told` means that the target itself tells for how long it drops repeats, so that the
/// effect is keyed by default.
pub(super) fn promise(effect: &mut Fields<'_>, is_told: bool) -> Option<Promise> {
    let (keyed, unkeyed_) = (("keyed", true), ("unkeyed", false));
    let chosen = if is_told {
        effect.choice("class", keyed, &[unkeyed_])
    } else {
        effect.choice("class", unkeyed_, &[keyed])
    };
    let Some(is_keyed) = chosen else {
        effect.ignore(&["on_doubt", "provider_window"]);
        return None;
    };
    if !is_keyed {
        effect.reject("provider_window", "belongs to `class = \"keyed\"`");
        return Some(Promise::Unkeyed(on_doubt(effect)));
    }
    effect.reject(
        "on_doubt",
        "belongs to `class = \"unkeyed\"`; a keyed effect is repeated \
         inside its provider's window and in doubt past it",
    );
    let is_written = effect.is_written("provider_window");
    if !is_written && !is_told {
        effect.missing("provider_window");
    }
    let provider_window = effect.duration("provider_window");
    if provider_window.is_some_and(|window| window.is_zero()) {
        fault(effect, "provider_window", "must be longer than zero");
    }
    let is_known = provider_window.is_some() || (is_told && !is_written);
    is_known.then_some(Promise::Keyed { provider_window })
}

fn unkeyed(effect: &mut Fields<'_>) -> Class {
    Class::Unkeyed(on_doubt(effect))
}

fn on_doubt(effect: &mut Fields<'_>) -> OnDoubt {
    let repeat = ("repeat", OnDoubt::Repeat);
    effect.choice_or("on_doubt", ("park", OnDoubt::Park), &[repeat])
}

/// Reads the class of an effect inside the store's proof, which is transactional and nothing else.
fn transactional(effect: &mut Fields<'_>) {
    effect.choice_or("class", ("transactional", ()), &[]);
    for name in ["on_doubt", "provider_window"] {
        effect.reject(
            name,
            "does not apply: this effect commits together with its record",
        );
    }
}

fn timeout(effect: &mut Fields<'_>, default: Duration) -> Duration {
    let timeout = effect.duration_or("timeout", default);
    if timeout.is_zero() {
        fault(effect, "timeout", "must be longer than zero");
    }
    timeout
}

/// The treatment of keys by a provider.
struct Provider {
    name: &'static str,
    /// The time for which it remembers a key.
    window: Duration,
    /// Refusals that it sends after it looked up the key, and keeps for that key.
    decisive: &'static str,
}

/// Stripe: it may remove keys once they are at least 24 hours old; it keeps the answer to the first request
/// whatever it was; and it gives 409 and 429 before the endpoint runs
/// (<https://docs.stripe.com/api/idempotent_requests>, <https://docs.stripe.com/error-low-level>). A declined
/// card is 402, which comes from the endpoint itself.
const PROVIDERS: [Provider; 1] = [Provider {
    name: "stripe",
    window: Duration::from_secs(86_400),
    decisive: "402",
}];

fn fault(effect: &mut Fields<'_>, name: &'static str, message: impl Into<String>) {
    if let Some(node) = effect.node(name) {
        effect.fault(name, node, message);
    }
}
