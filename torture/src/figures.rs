//! The figures of a test, for a program that counts over all of them.

use std::fs::File;
use std::io::Write;

use serde_json::Map;

/// Appends a line of JSON to the file that `SEMEL_TORTURE_FIGURES` names, if it names one. For tests that have
/// compared the outside world with the expected effects: a figure of a failed test counts for nothing.
///
/// # Panics
///
/// If the file cannot be written.
pub fn tell(name: &str, figures: &[(&str, u64)]) {
    let Some(path) = std::env::var_os("SEMEL_TORTURE_FIGURES") else {
        return;
    };
    let mut told = Map::new();
    told.insert("name".to_owned(), name.into());
    told.extend(
        figures
            .iter()
            .map(|(what, count)| ((*what).to_owned(), (*count).into())),
    );
    let line = serde_json::Value::Object(told).to_string() + "\n";
    let mut options = File::options();
    let file = options.create(true).append(true).open(path);
    // One write, since tests run beside each other.
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("SEMEL_TORTURE_FIGURES names a file that can be written");
}
