//! The few colours of the output. They help the eye; the words alone say everything.

use anstyle::{AnsiColor, Style};
use semel_core::StateKind;

/// The role of a piece of text, which decides its colour if there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextStyle {
    /// Most text.
    #[default]
    Plain,
    /// A title or a label.
    Heading,
    /// As it should be.
    Good,
    /// Wants the operator's attention.
    Attention,
    /// Failed.
    Bad,
    /// Of less interest.
    Faint,
    /// To be typed.
    Code,
}

impl TextStyle {
    /// The style of a state.
    pub const fn of(state: StateKind) -> Self {
        match state {
            StateKind::Completed => Self::Good,
            StateKind::InDoubt => Self::Attention,
            StateKind::Dead => Self::Bad,
            StateKind::Claimed | StateKind::Started | StateKind::Released => Self::Plain,
        }
    }

    /// Writes `text` in this style.
    pub(super) fn paint(self, text: &str, colour: bool, to: &mut String) {
        use std::fmt::Write;
        let style = match self {
            Self::Plain => Style::new(),
            Self::Heading => Style::new().bold(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Attention => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Faint => Style::new().dimmed(),
            Self::Code => AnsiColor::Cyan.on_default(),
        };
        if colour && self != Self::Plain && !text.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(to, "{style}{text}{style:#}");
        } else {
            to.push_str(text);
        }
    }
}

/// A state in words: `in doubt`.
pub const fn state_text(state: StateKind) -> &'static str {
    match state {
        StateKind::InDoubt => "in doubt",
        StateKind::Claimed
        | StateKind::Started
        | StateKind::Released
        | StateKind::Completed
        | StateKind::Dead => state.as_str(),
    }
}
