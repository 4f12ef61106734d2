use semel_backends::BACKENDS;
use semel_config::starter::{source_commands, target_commands};
use semel_config::{Overrides, Settings};

use super::*;
use crate::args::init::{EFFECTS, LEVELS, SOURCES, STORES};

/// Every choice that init takes.
fn every_choice() -> Vec<Choice> {
    let mut choices = Vec::new();
    for &(.., source) in SOURCES {
        for &(.., store) in STORES {
            for &(.., effect) in EFFECTS {
                for &(.., level) in LEVELS {
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
                    choices.extend(choice(&arguments));
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
        let text = choice.configuration();
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
    let missing = |source, effect| super::missing(source, effect).collect::<Vec<_>>();
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
        let commands = choice.commands();
        let at = |start: &str| commands.iter().position(|line| line.starts_with(start));
        let check = at("semel check").expect("a check");
        assert_eq!(at("semel run"), Some(check + 1), "{choice:?}");
        let makes = |line: &&String| {
            line.contains(" declare ") || line.contains("add ") || line.contains("--create")
        };
        let is_broker = |is: bool| usize::from(is);
        let made = commands[..check].iter().filter(makes).count();
        let is_source = source_commands(choice.source).is_some();
        let is_target = target_commands(choice.effect).is_some();
        assert_eq!(
            made,
            is_broker(is_source) + is_broker(is_target),
            "{commands:?}"
        );
    }
}

#[test]
fn every_store_makes_a_sound_configuration_of_a_gateway() {
    let is_built_in = |store: &StoreKind| store_url(store.url()).is_ok();
    let stores = STORES.iter().map(|(.., store)| *store);
    for store in stores.filter(is_built_in) {
        let [_, config] = gateway_files(store);
        let (variables, overrides) = (std::iter::empty(), Overrides::default());
        let read = Settings::of("semel.toml", &config.text, variables, &overrides, BACKENDS);
        assert!(read.is_ok(), "{:?}:\n{}", read.err(), config.text);
    }
}
