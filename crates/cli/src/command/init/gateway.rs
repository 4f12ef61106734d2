//! The files that `semel init --gateway` writes.

use super::config;
use super::files::File;
use crate::args::StoreKind;

/// Returns every file, the configuration last: without it, nothing runs.
pub(super) fn files(store: StoreKind) -> [File; 2] {
    let (begin, end) = (BEGIN, include_str!("template/gateway.toml"));
    [
        File {
            name: "upstream.py",
            text: include_str!("template/upstream.py").to_owned(),
        },
        File {
            name: "semel.toml",
            text: format!("{begin}{}\n{end}", config::of_store(store)),
        },
    ]
}

/// The commands to type then.
pub(super) const NEXT: [&str; 5] = [
    "python3 upstream.py 9000 &   # stands for your API",
    "semel check",
    "semel run &",
    "curl -i http://127.0.0.1:8080/charges -H 'Idempotency-Key: pay-1' -d amount=4200",
    "curl -i http://127.0.0.1:8080/charges -H 'Idempotency-Key: pay-1' -d amount=4200   # again: charged once",
];

const BEGIN: &str = "# Stands before an API, and lets clients send a request again without having it carried out twice.\n\
                     # `semel config reference` prints every setting; `semel config show` has what applies here.\n\n";

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use semel_backends::BACKENDS;
    use semel_config::{Overrides, Settings};

    use super::*;
    use crate::configuration::store_url;

    #[test]
    fn every_store_makes_a_sound_configuration() {
        let is_built_in = |store: &&StoreKind| store_url(config::url(**store)).is_ok();
        for &store in StoreKind::value_variants().iter().filter(is_built_in) {
            let [_, config] = files(store);
            let (variables, overrides) = (std::iter::empty(), Overrides::default());
            let read = Settings::of("semel.toml", &config.text, variables, &overrides, BACKENDS);
            assert!(read.is_ok(), "{:?}:\n{}", read.err(), config.text);
        }
    }
}
