//! `cargo xtask picture`: the pictures of the README and of an example, drawn by code so that they can be changed like code,
//! and those of the console, taken of a worker that runs.
//!
//! They have their own background and follow the reader's colour scheme, so they read in light and dark.

mod console;
mod observability;

use std::fmt::Write;

use crate::failure::Result;
use crate::workspace::Workspace;

/// The path of the picture.
pub(crate) const FILE: &str = "docs/picture.svg";

/// Writes the pictures.
pub(crate) fn run(workspace: &Workspace) -> Result {
    std::fs::write(workspace.root.join(FILE), drawn())?;
    println!("{FILE}");
    let drawn = observability::drawn(workspace)?;
    std::fs::write(workspace.root.join(observability::FILE), drawn)?;
    println!("{}", observability::FILE);
    console::take(workspace)
}

/// The picture as SVG.
pub(crate) fn drawn() -> String {
    let mut picture = Picture(String::new());
    picture.frame("outer", [0, 0, WIDTH, HEIGHT]);
    picture.frame("box", [24, 70, 130, 84]);
    picture.words("title", 89, 102, "broker");
    picture.words("note", 89, 125, "Kafka, NATS,");
    picture.words("note", 89, 140, "RabbitMQ, a file");

    picture.frame("semel", [280, 40, 300, 144]);
    picture.words("title", 430, 68, "semel");
    for (left, step) in [(296, "1 claim"), (390, "2 effect"), (484, "3 record")] {
        picture.frame("step", [left, 86, 80, 40]);
        picture.words("word", left + 40, 111, step);
    }
    picture.words("note", 430, 152, "a duplicate finds the record:");
    picture.words("note", 430, 168, "the first outcome, no second effect");

    picture.frame("box", [706, 70, 130, 84]);
    picture.words("title", 771, 102, "target");
    picture.words("note", 771, 125, "a database, an API,");
    picture.words("note", 771, 140, "a program, a topic");

    picture.frame("box", [280, 254, 300, 56]);
    picture.words("title", 430, 278, "store");
    picture.words(
        "note",
        430,
        298,
        "a folder, SQLite, PostgreSQL, MySQL, Redis",
    );

    picture.arrow([154, 98], [280, 98]);
    picture.words("note", 217, 76, "a message,");
    picture.words("note", 217, 91, "perhaps again");
    picture.arrow([280, 130], [154, 130]);
    picture.words("note", 217, 148, "4 acknowledge");
    picture.arrow([580, 112], [706, 112]);
    picture.words("note", 643, 104, "once per key");
    picture.arrow([336, 184], [336, 254]);
    picture.words("note", 308, 223, "1 claim");
    picture.arrow([524, 184], [524, 254]);
    picture.words("note", 554, 223, "3 record");
    picture.words("note", 430, 215, "killed in between?");
    picture.words("note", 430, 231, "the claim outlives it");
    picture.finish()
}

struct Picture(String);

impl Picture {
    fn frame(&mut self, class: &str, [x, y, width, height]: [i32; 4]) {
        self.line(&format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>"
        ));
    }

    fn words(&mut self, class: &str, x: i32, y: i32, words: &str) {
        self.line(&format!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{words}</text>"
        ));
    }

    fn arrow(&mut self, [x1, y1]: [i32; 2], [x2, y2]: [i32; 2]) {
        // The head is drawn beyond the end of the line.
        let (dx, dy) = (6 * (x2 - x1).signum(), 6 * (y2 - y1).signum());
        let (x2, y2) = (x2 - dx, y2 - dy);
        self.line(&format!(
            "<line class=\"arrow\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" marker-end=\"url(#head)\"/>"
        ));
    }

    fn line(&mut self, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "  {line}");
    }

    fn finish(self) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" \
             aria-label=\"{LABEL}\">\n{STYLE}{}</svg>\n",
            self.0
        )
    }
}

const WIDTH: i32 = 860;
const HEIGHT: i32 = 334;
const LABEL: &str = "A broker hands a message to Semel, which claims its key in a store, runs the effect on the target once, \
                     records the outcome, and then acknowledges";
const STYLE: &str = "\
  <style>
    text { font: 13px system-ui, sans-serif; text-anchor: middle; fill: #1f2328; }
    .title { font-size: 17px; font-weight: 600; }
    .note { font-size: 12px; fill: #59636e; }
    rect { fill: #ffffff; stroke: #8c959f; }
    .outer { stroke: none; }
    .semel { fill: #ddf4ff; stroke: #0969da; }
    .arrow { stroke: #59636e; stroke-width: 1.5; }
    .tip { fill: #59636e; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .note { fill: #9198a1; }
      rect { fill: #0d1117; stroke: #656c76; }
      .semel { fill: #121d2f; stroke: #4493f8; }
      .arrow { stroke: #9198a1; }
      .tip { fill: #9198a1; }
    }
  </style>
  <defs>
    <marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"2\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">
      <path class=\"tip\" d=\"M0,0 L8,4 L0,8 z\"/>
    </marker>
  </defs>
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_what_is_drawn() {
        let workspace = Workspace::find().expect("cargo runs");
        let there = std::fs::read_to_string(workspace.root.join(FILE)).expect("a picture");
        assert!(there == drawn(), "`cargo xtask picture` draws it anew");
    }
}
