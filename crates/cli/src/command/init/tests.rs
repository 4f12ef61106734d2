use clap::ValueEnum;
use semel_backends::BACKENDS;
use semel_config::{Overrides, Settings};

use super::*;

/// Every choice that init takes.
fn every_choice() -> Vec<Choice> {
    let mut choices = Vec::new();
    for &source in SourceKind::value_variants() {
        for &store in StoreKind::value_variants() {
            for &effect in EffectKind::value_variants() {
                for &level in Level::value_variants() {
                    let arguments = Init {
                        dir: PathBuf::from("shop"),
                        source,
                        store: Some(store),
                        effect: Some(effect),
                        gateway: false,
                        level,
                        format: crate::args::Format {
                            output: crate::args::Output::Table,
                        },
                    };
                    choices.extend(Choice::of(&arguments));
                }
            }
        }
    }
    choices
}

#[test]
fn every_combination_is_a_sound_configuration() {
    let choices = every_choice();
    assert!(choices.len() > 500, "{}", choices.len());
    for choice in choices {
        let text = config::text(choice);
        let overrides = Overrides::default();
        let read = Settings::of(
            "semel.toml",
            &text,
            std::iter::empty(),
            &overrides,
            BACKENDS,
        );
        assert_eq!(read.err(), None, "{choice:?}:\n{text}");
    }
}

#[test]
fn a_broker_that_is_not_built_in_is_told() {
    let missing = |source, effect| broker::missing(source, effect).collect::<Vec<_>>();
    let file = EffectKind::File;
    assert_eq!(missing(SourceKind::File, file), [""; 0]);
    let kafka = ["kafka"];
    let expected = if cfg!(feature = "kafka") {
        &[]
    } else {
        &kafka[..]
    };
    assert_eq!(missing(SourceKind::Kafka, file), expected);
    assert_eq!(missing(SourceKind::Stdin, EffectKind::Kafka), expected);
}

#[test]
fn a_broker_is_set_up_before_it_is_used() {
    for choice in every_choice() {
        let commands = next(Path::new("shop"), choice);
        let at = |start: &str| commands.iter().position(|line| line.starts_with(start));
        let check = at("semel check").expect("a check");
        assert_eq!(at("semel run"), Some(check + 1), "{choice:?}");
        let makes = |line: &&String| {
            line.contains(" declare ") || line.contains("add ") || line.contains("--create")
        };
        let is_broker = |is: bool| usize::from(is);
        let made = commands[..check].iter().filter(makes).count();
        let is_source = broker::source(choice.source).is_some();
        let is_target = broker::target(choice.effect).is_some();
        assert_eq!(
            made,
            is_broker(is_source) + is_broker(is_target),
            "{commands:?}"
        );
    }
}
