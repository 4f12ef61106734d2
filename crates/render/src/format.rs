//! The forms in which data and conversation are printed.

/// The format in which data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Table,
    /// A list is one document, any other answer one object on one line.
    Json,
    /// One object per line, lists too.
    Jsonl,
}

/// The use of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Even into a pipe.
    Always,
    /// Not at all.
    Never,
}

/// The form of the conversation on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For a log: an object per line, with the keys of messages.
    Json,
    /// For people: lines of text, without keys, and bars on a terminal.
    Text,
    /// Nothing but errors.
    Off,
}
