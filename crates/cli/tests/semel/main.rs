//! The `semel` binary as its users meet it: a folder, a configuration, a process; its exit code, its
//! standard output and its standard error.
//!
//! Effects and records are read by plain means: files, and tables through SQLite itself.

mod config;
mod effect_exec;
mod effect_file;
mod effect_http;
mod effect_jsonl;
mod effect_sql;
mod effect_stdout;
mod keys;
mod lines;
mod messages;
mod processes;
mod protocol;
mod secrets;
mod shutdown;
mod site;
mod store;
mod summary;
