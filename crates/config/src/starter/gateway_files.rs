//! The files that `semel init --gateway` writes.

use super::{StarterFile, StoreKind, settings_file};

/// Returns every file, the configuration last: without it, nothing runs.
pub fn files(store: StoreKind) -> [StarterFile; 2] {
    let (begin, end) = (BEGIN, include_str!("template/gateway.toml"));
    [
        StarterFile {
            name: "upstream.py",
            text: include_str!("template/upstream.py").to_owned(),
        },
        StarterFile {
            name: "semel.toml",
            text: format!("{begin}{}\n{end}", settings_file::of_store(store)),
        },
    ]
}

const BEGIN: &str = "# Stands before an API, and lets clients send a request again without having it carried out twice.\n\
                     # `semel config reference` prints every setting; `semel config show` has what applies here.\n\n";
