//! The rules about a source that takes webhooks: whether its messages are verified, and who can read its secrets.

use std::time::Duration;

use semel_config::{IngestSettings, PipelineSettings, SourceSettings};

use semel_core::units::spelled;

use super::finding::{Finding, warn};

/// Lists what is to be said about the webhooks of a pipeline; nothing if it has another source.
pub(super) fn findings(pipeline: &PipelineSettings) -> Vec<Finding> {
    let webhook = match &pipeline.source {
        SourceSettings::Webhook(webhook) => webhook,
        SourceSettings::Ingest(ingest) => return of_ingest(ingest),
        _ => return Vec::new(),
    };
    let unverified = webhook.is_open().then(|| {
        let why = format!(
            "nothing is verified: whoever reaches {} can send messages",
            webhook.listen
        );
        let advice = "name the provider with `verify`, or let a proxy in front let in nobody else";
        warn("webhook-unverified", why, advice)
    });
    let exposed = webhook.exposed_secret().map(|file| {
        let why = format!(
            "other users of this machine can read or change {}, and so sign requests",
            file.display()
        );
        let advice = "take the right away: `chmod go=` that file, and give the provider a new secret if they are not to \
                      know this one";
        warn("secret-exposed", why, advice)
    });
    unverified.into_iter().chain(exposed).collect()
}

/// Lists what is to be said about a source that producers send to.
fn of_ingest(ingest: &IngestSettings) -> Vec<Finding> {
    let any = ingest.is_any_first.then(|| {
        let why = "a producer that this store does not know may begin with any sequence: what it sent to another store, or \
                   to this one before it was lost, may be taken again; and if its first requests overtake one another, \
                   what the later ones bring before the first that was taken is answered with 200 as known, and lost";
        let advice = "remove `first = \"any\"` once every producer has sent something";
        warn("first-any", why, advice)
    });
    let forgotten = ingest
        .forget_producers
        .and_then(|longest| forgotten(ingest, longest));
    let exposed = ingest.exposed_tokens().map(|file| {
        let why = format!(
            "other users of this machine can read or change {}, and so send messages",
            file.display()
        );
        let advice = "take the right away: `chmod go=` that file, and give the producers new tokens if they are not to \
                      know these";
        warn("secret-exposed", why, advice)
    });
    any.into_iter().chain(forgotten).chain(exposed).collect()
}

/// Says what it can cost that silent producers are forgotten; nothing if the source declares that nothing comes again
/// later than that.
fn forgotten(ingest: &IngestSettings, longest: Duration) -> Option<Finding> {
    let after = spelled(longest);
    let (why, advice) = if ingest.is_any_first {
        (
            format!(
                "a producer that sent nothing new for {after} is forgotten, and may begin with any sequence then: what it \
                 sends again from before that is taken, and runs once more"
            ),
            "remove `first = \"any\"`, or set `forget_producers` to more than producers keep what they send",
        )
    } else if ingest.retention.is_none_or(|it| it > longest) {
        let until = ingest.retention.map_or_else(
            || "nobody says for how long producers send the same again".to_owned(),
            |it| format!("producers send the same again for {}", spelled(it)),
        );
        (
            format!(
                "{until}, and one that sent nothing new for {after} is forgotten: a repeat that begins with sequence 1 is \
                 taken then, and runs once more, and any other is refused with 409 `producer-unknown`"
            ),
            "declare as `retention` for how long they do, and set `forget_producers` to more",
        )
    } else {
        return None;
    };
    Some(warn("producers-forgotten", why, advice))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::super::text_settings::settings;
    use super::*;

    #[test]
    fn forgotten_producers_are_told_unless_nothing_comes_again_for_so_long() {
        let of = |more: &str| {
            let text = format!(
                "[pipelines.p]\nkey = 'header:semel-id'\nwindow = '7d'\neffect = {{ kind = 'stdout' }}\n\
                 [pipelines.p.source]\nkind = 'ingest'\nlisten = '127.0.0.1:8283'\npath = '/in'\n{more}\n"
            );
            let found = findings(&settings(&text).pipelines[0]);
            let told = found.iter().find(|it| it.code == "producers-forgotten");
            told.map(|it| it.message.clone())
        };
        assert_eq!(of(""), None);
        assert_eq!(of("forget_producers = '30d'\nretention = '7d'"), None);
        for (more, says) in [
            (
                "forget_producers = '30d'",
                "begins with sequence 1 is taken",
            ),
            (
                "forget_producers = '30d'\nretention = '31d'",
                "begins with sequence 1 is taken",
            ),
            (
                "forget_producers = '30d'\nretention = '7d'\nfirst = 'any'",
                "may begin with any sequence",
            ),
        ] {
            let told = of(more).unwrap_or_default();
            assert!(told.contains(says), "{more}: {told}");
        }
    }

    #[test]
    fn a_secret_that_others_can_read_is_told_and_one_in_a_private_folder_is_not() {
        // Below folders that everybody may enter.
        let folder = tempfile::tempdir_in("/tmp").expect("a folder");
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "geheim").expect("a file");
        let text = format!(
            "[pipelines.p]\nkey = 'hash'\neffect = {{ kind = 'stdout' }}\n[pipelines.p.source]\nkind = 'webhook'\n\
             listen = '127.0.0.1:8282'\npath = '/'\nverify = 'github'\nsecret_file = '{}'\n",
            secret.display()
        );
        let pipelines = settings(&text).pipelines;
        let with = |folder_mode, mode| {
            let rights = Permissions::from_mode;
            set_permissions(&secret, rights(mode)).expect("a right");
            set_permissions(folder.path(), rights(folder_mode)).expect("a right");
            findings(&pipelines[0])
        };
        // The group is this process's own; see `fsGroup` of Kubernetes.
        for (folder_mode, mode) in [
            (0o755, 0o600),
            (0o755, 0o400),
            (0o755, 0o640),
            (0o755, 0o440),
            (0o700, 0o644),
        ] {
            assert_eq!(with(folder_mode, mode), [], "{folder_mode:o} {mode:o}");
        }
        for mode in [0o644, 0o604, 0o620, 0o602] {
            let found = with(0o755, mode);
            let [only] = &found[..] else {
                panic!("{mode:o}: {found:?}");
            };
            assert_eq!(only.code, "secret-exposed");
            assert!(only.message.contains("secret, and so"), "{only:?}");
            assert!(!format!("{only:?}").contains("geheim"), "{only:?}");
        }
    }
}
