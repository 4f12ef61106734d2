//! What standard output is connected to: a terminal of some width, or something that wants every
//! value whole.

use std::io::IsTerminal;

use anstream::{AutoStream, ColorChoice};

use crate::args::Colour;

/// How wide data may be, and whether it may have colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Columns of the terminal; `None` where standard output is none, and nothing is shortened.
    pub(crate) width: Option<usize>,
    /// Whether to colour.
    pub(crate) colour: bool,
}

impl Screen {
    /// That of standard output.
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

/// Whether standard error has colours.
pub(super) fn colours_stderr() -> bool {
    AutoStream::choice(&std::io::stderr()) != ColorChoice::Never
}

/// Takes `--color` for the whole process. Without it `NO_COLOR`, `CLICOLOR_FORCE` and the terminal
/// decide.
pub(crate) fn set_colour(colour: Colour) {
    match colour {
        Colour::Auto => {}
        Colour::Always => ColorChoice::Always.write_global(),
        Colour::Never => ColorChoice::Never.write_global(),
    }
}

const USUAL_WIDTH: usize = 80;
