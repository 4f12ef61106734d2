//! Settings for the tests of this module, from the text of a file.

use semel_config::{Backends, Overrides, ServerKind, Servers, Settings};

/// Reads the text of a file, which names no server but PostgreSQL's, and publishes nothing.
#[track_caller]
pub(super) fn settings(text: &str) -> Settings {
    let backends = Backends {
        servers: Servers {
            is_built_in: |kind| kind == ServerKind::Postgres,
            check: |_| Ok(()),
        },
        target: |_| unreachable!("nothing is published"),
    };
    let (variables, overrides) = (std::iter::empty(), Overrides::default());
    let read = Settings::of("semel.toml", text, variables, &overrides, backends);
    read.unwrap_or_else(|faults| panic!("{faults:?}: {text}"))
}
