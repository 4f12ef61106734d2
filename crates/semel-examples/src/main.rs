//! The examples of the library in one program, for the test that runs them; `SEMEL_EXAMPLE` says which.

use std::process::ExitCode;

include!(concat!(env!("OUT_DIR"), "/examples.rs"));

fn main() -> ExitCode {
    let name = std::env::var("SEMEL_EXAMPLE").unwrap_or_default();
    run(&name)
}
