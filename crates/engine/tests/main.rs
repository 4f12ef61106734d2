//! The engine against a world that fails on cue: see `README.md` beside this file.

mod attempt;
mod consumer;
mod once;
mod spans;

use semel_simulation::on_cue as world;
