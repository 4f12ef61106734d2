//! `tls` of a source, an effect or dead letters: the encryption of a connection to a broker.

use semel_tls::Tls;

use super::fields::Fields;

pub(super) fn read(fields: &mut Fields<'_>) -> Tls {
    let Some(mut table) = table(fields, "`ca`, `cert` and `key`, or `server_name`") else {
        return Tls::default();
    };
    let tls = Tls {
        ca: table.path("ca"),
        cert: table.path("cert"),
        key: table.path("key"),
        server_name: table.text("server_name").map(Into::into),
    };
    match (&tls.cert, &tls.key) {
        (Some(_), None) => table.missing("key"),
        (None, Some(_)) => table.missing("cert"),
        (Some(_), Some(_)) | (None, None) => {
            if let (Err(error), Some(node)) = (tls.check(), table.node("server_name")) {
                table.fault("server_name", node, error.to_string());
            }
        }
    }
    table.finish();
    tls
}

/// Takes the table `tls`, which need not be written. One that is written and empty is a fault: whoever writes it wants
/// encryption, and without a setting nothing is encrypted. `wanted` names the settings.
pub(super) fn table<'a>(fields: &mut Fields<'a>, wanted: &str) -> Option<Fields<'a>> {
    let is_written = fields.is_written("tls");
    let table = fields.optional_sub("tls")?;
    if is_written && table.is_empty() {
        fields.fault_at(
            &["tls"],
            format!("is empty, so nothing is encrypted; set {wanted} in it, or remove it"),
        );
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use semel_core::Code;

    use crate::all_backends::ALL_BACKENDS;
    use crate::settings::{Overrides, Settings};

    const PIPELINE: &str = "[pipelines.p]\nkey = 'header:id'\neffect = { kind = 'stdout' }\n";

    fn load(text: &str) -> Result<Settings, Vec<crate::Fault>> {
        let overrides = Overrides::default();
        let variables = std::iter::empty();
        Settings::of("semel.toml", text, variables, &overrides, ALL_BACKENDS)
    }

    #[test]
    fn an_empty_table_is_refused_wherever_there_is_one() {
        let nats = "kind = 'nats'\nurl = 'nats://127.0.0.1:1'\nstream = 's'\nconsumer = 'c'\n";
        let amqp = "kind = 'amqp'\nurl = 'amqps://127.0.0.1:1'\nqueue = 'q'\n";
        let webhook = "kind = 'webhook'\nlisten = '127.0.0.1:1'\npath = '/in'\n";
        let ingest = "kind = 'ingest'\nlisten = '127.0.0.1:1'\n";
        let source = |it: &str| format!("{PIPELINE}[pipelines.p.source]\n{it}");
        let listens = |it: &str| {
            format!(
                "{}[{it}]\nlisten = '127.0.0.1:1'\n",
                source("kind = 'stdin'\n")
            )
        };
        for (before, owner) in [
            (listens("admin"), "admin"),
            (listens("claims"), "claims"),
            (source(nats), "pipelines.p.source"),
            (source(amqp), "pipelines.p.source"),
            (source(webhook), "pipelines.p.source"),
            (source(ingest), "pipelines.p.source"),
        ] {
            let path = format!("{owner}.tls");
            let faults = load(&format!("{before}[{path}]\n"))
                .err()
                .expect("an empty table");
            let told: Vec<_> = faults.iter().filter(|it| it.path == path).collect();
            let [fault] = &*told else {
                panic!("{before}: {faults:?}");
            };
            assert_eq!(fault.code, Code::InvalidConfig);
            assert!(
                fault
                    .message
                    .starts_with("is empty, so nothing is encrypted; set `c"),
                "{fault:?}"
            );
            let line = before.lines().count() + 1;
            assert_eq!(fault.origin, format!("semel.toml:{line}"));
            let without = load(&before).err().unwrap_or_default();
            assert!(without.iter().all(|it| it.path != path), "{without:?}");
        }
    }

    #[test]
    fn a_table_that_is_not_written_is_shown_as_a_comment() {
        let settings = load(&format!("{PIPELINE}source = {{ kind = 'stdin' }}\n")).expect("sound");
        let shown = settings.effective.toml(true);
        assert!(
            shown.contains("\n# [admin.tls]\n# client_ca is not set\n"),
            "{shown}"
        );
        assert!(!shown.contains("\n[admin.tls]"), "{shown}");
        assert!(load(&shown).is_ok(), "{shown}");
    }
}
