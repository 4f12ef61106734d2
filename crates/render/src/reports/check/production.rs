//! Describes the list before production.

use semel_operate::check::{Line, Production, Standing};

use crate::{Answer, Block, TextStyle};

impl Answer for Production {
    fn describe(&self, block: &mut Block) {
        let counts = [
            (self.failed, if self.failed == 1 { "fails" } else { "fail" }),
            (self.unknown, "unknown"),
            (
                self.passed,
                if self.passed == 1 { "passes" } else { "pass" },
            ),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        block.heading(&format!("{}: {}", self.pipeline, counts.join(", ")));
        for Line {
            line,
            verdict,
            why,
            advice,
            ..
        } in &self.lines
        {
            let style = match verdict {
                Standing::Pass => TextStyle::Good,
                Standing::Unknown => TextStyle::Attention,
                Standing::Fail => TextStyle::Bad,
            };
            block.item(style, verdict.as_str(), line, why, advice.as_deref());
        }
    }
}
