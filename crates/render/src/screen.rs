//! The other end of standard output: a terminal of some width, or something that wants every value whole.

use std::io::IsTerminal;

use anstream::{AutoStream, ColorChoice};

use crate::Colour;

/// The width that data may have, and whether it may have colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Columns of the terminal; `None` if standard output is not a terminal, and nothing is shortened.
    pub(crate) width: Option<usize>,
    /// True if data has colours.
    pub(crate) colour: bool,
}

impl Screen {
    /// The screen of standard output.
    pub(crate) fn of_stdout() -> Self {
        let stdout = std::io::stdout();
        let width = stdout.is_terminal().then(|| {
            terminal_size::terminal_size_of(&stdout).map_or(0, |(width, _)| usize::from(width.0))
        });
        Self {
            // A terminal that does not know its own width says 0.
            width: width.map(|width| if width == 0 { USUAL_WIDTH } else { width }),
            colour: AutoStream::choice(&stdout) != ColorChoice::Never,
        }
    }
}

/// Tells whether standard error has colours.
pub(super) fn colours_stderr() -> bool {
    AutoStream::choice(&std::io::stderr()) != ColorChoice::Never
}

/// Takes `--color` for the whole process. Without it, `NO_COLOR`, `CLICOLOR_FORCE` and the terminal decide.
pub fn set_colour(colour: Colour) {
    match colour {
        Colour::Auto => {}
        Colour::Always => ColorChoice::Always.write_global(),
        Colour::Never => ColorChoice::Never.write_global(),
    }
}

const USUAL_WIDTH: usize = 80;
