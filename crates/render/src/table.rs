//! Prints rows under headings, one by one: the first page of rows decides the widths of the columns.
//!
//! On a terminal, text that does not fit is shortened; elsewhere every value stays whole, and a later
//! value that is wider than its column pushes the rest of its row to the right.

mod row;

pub use row::Row;

use std::borrow::Cow;

use super::screen::Screen;
use super::text;
use super::text_style::TextStyle;

/// A column: its title is the name of the JSON member that it shows.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub struct Column {
    title: &'static str,
    kind: Kind,
    at_least: usize,
    is_spare: bool,
    /// Left out while no row has a value in it.
    is_if_any: bool,
    /// The heading if there is too little room for the title.
    short: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// To the left, shortened if it does not fit.
    Text,
    /// To the left, and kept whole for longer than texts: half a key is no key.
    Key,
    /// To the left, without its milliseconds if they do not fit.
    Time,
    /// To the left, shortened if nothing else helps.
    Word,
    /// To the right, never shortened: a number without its end would be another number.
    Number,
}

impl Column {
    /// A column of texts.
    pub const fn text(title: &'static str) -> Self {
        Self::new(title, Kind::Text)
    }

    /// A column of [`key_text`](super::key_text)s.
    pub const fn key(title: &'static str) -> Self {
        Self::new(title, Kind::Key)
    }

    /// A column of short words, for example codes, that are kept whole as long as texts can be shortened.
    pub const fn word(title: &'static str) -> Self {
        Self::new(title, Kind::Word)
    }

    /// A column of numbers, to the right; they are never shortened.
    pub const fn number(title: &'static str) -> Self {
        Self::new(title, Kind::Number)
    }

    /// A column of [`Row::state`].
    pub const fn state(title: &'static str) -> Self {
        Self::word(title).at_least("completed".len())
    }

    /// A column of [`Row::time`].
    pub const fn time(title: &'static str) -> Self {
        Self::new(title, Kind::Time).at_least(TIME)
    }

    /// The same column, left out if the others would not fit beside it.
    pub const fn spare(self) -> Self {
        Self {
            is_spare: true,
            ..self
        }
    }

    /// The same column, left out while no row has a value in it. Once a later row has one, the headings come again,
    /// with it.
    pub const fn if_any(self) -> Self {
        Self {
            is_if_any: true,
            ..self
        }
    }

    /// The same column, under another heading if there is too little room for its own.
    pub const fn or(self, short: &'static str) -> Self {
        Self {
            short: Some(short),
            ..self
        }
    }

    /// The same column, at least this many characters wide even if the first rows need less.
    pub const fn at_least(self, at_least: usize) -> Self {
        Self { at_least, ..self }
    }

    const fn new(title: &'static str, kind: Kind) -> Self {
        Self {
            title,
            kind,
            at_least: 0,
            is_spare: false,
            is_if_any: false,
            short: None,
        }
    }

    const fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Number)
    }

    fn heading(&self) -> String {
        self.title.replace('_', " ").to_uppercase()
    }
}

/// Lays rows out.
pub(super) struct Table {
    columns: &'static [Column],
    screen: Screen,
    /// Widths of the columns, once they are decided; 0 is left out.
    widths: Option<Vec<usize>>,
    /// The first page, until the widths are decided.
    held: Vec<Row>,
    row: Row,
}

impl Table {
    pub(super) const fn new(columns: &'static [Column], screen: Screen) -> Self {
        Self {
            columns,
            screen,
            widths: None,
            held: Vec::new(),
            row: Row::new(),
        }
    }

    /// Takes a row and writes everything that can be shown now.
    pub(super) fn push(&mut self, fill: impl FnOnce(&mut Row), to: &mut String) {
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        fill(&mut row);
        debug_assert_eq!(row.len(), self.columns.len(), "a cell per column");
        if self.has_more_columns(&row) {
            self.widths = None;
        }
        if let Some(widths) = &self.widths {
            self.line(widths, row.cells(), to);
            self.row = row;
            return;
        }
        self.held.push(row);
        if self.held.len() == FIRST_PAGE {
            self.settle(to);
        }
    }

    /// Tells whether a row has a value in a column that was left out because no row had one.
    fn has_more_columns(&self, row: &Row) -> bool {
        let Some(widths) = &self.widths else {
            return false;
        };
        let mut columns = row.cells().zip(self.columns.iter().zip(widths));
        columns.any(|((cell, _), (column, width))| {
            column.is_if_any && *width == 0 && cell != Row::NOTHING
        })
    }

    /// Decides the widths by the rows so far and writes the rows. Without a row, it waits for one.
    pub(super) fn settle(&mut self, to: &mut String) {
        if self.widths.is_some() || self.held.is_empty() {
            return;
        }
        let held = std::mem::take(&mut self.held);
        let headings: Vec<_> = self.columns.iter().map(Column::heading).collect();
        let mut widths: Vec<_> = self.columns.iter().map(|column| column.at_least).collect();
        for row in &held {
            for ((cell, _), (width, column)) in row.cells().zip(widths.iter_mut().zip(self.columns))
            {
                if !column.is_if_any || cell != Row::NOTHING {
                    *width = text::width(cell).max(*width);
                }
            }
        }
        let headings = self.fit(&mut widths, &headings);
        let headings = headings
            .iter()
            .map(|heading| (&**heading, TextStyle::Heading));
        self.line(&widths, headings, to);
        for row in &held {
            self.line(&widths, row.cells(), to);
        }
        self.widths = Some(widths);
    }

    /// Makes room for the headings, and on a terminal narrows columns until a row fits: headings of numbers and
    /// milliseconds go first, then spare columns, then texts are shortened, the widest first, then everything
    /// else except numbers. The last column may use the rest. Returns the headings as they fit.
    fn fit<'a>(&self, widths: &mut [usize], headings: &'a [String]) -> Vec<Cow<'a, str>> {
        let of_headings = headings.iter().zip(self.columns.iter().zip(&*widths));
        let of_headings: Vec<_> = of_headings
            .map(
                |(heading, (column, width))| match (column.is_if_any, *width) {
                    (true, 0) => 0,
                    (true | false, _) => text::width(heading),
                },
            )
            .collect();
        let whole = |heading: &'a String| Cow::Borrowed(&**heading);
        let needed = widths.iter().zip(&of_headings).map(|(a, b)| *a.max(b));
        let needed = needed.sum::<usize>() + gaps(widths);
        let is_tight = self.screen.width.is_some_and(|screen| needed > screen);
        for ((width, heading), column) in widths.iter_mut().zip(of_headings).zip(self.columns) {
            let most = if is_tight && column.is_number() {
                SHORT_HEADING
            } else {
                heading
            };
            *width = heading.min(most).max(*width);
        }
        let Some(screen) = self.screen.width else {
            for (width, column) in widths.iter_mut().zip(self.columns) {
                if matches!(column.kind, Kind::Text | Kind::Key) {
                    *width = USUAL.min(*width);
                }
            }
            return headings.iter().map(whole).collect();
        };
        self.leave_out(widths, screen);
        let full = widths.to_vec();
        for (width, column) in widths.iter_mut().zip(self.columns) {
            if column.kind == Kind::Key {
                *width = KEY.min(*width);
            }
        }
        let mut left = self.narrow(widths, screen, &[Kind::Text]);
        if left == 0 {
            let all = [Kind::Text, Kind::Word, Kind::Time, Kind::Key];
            self.narrow(widths, screen, &all);
        }
        for ((width, full), column) in widths.iter_mut().zip(full).zip(self.columns) {
            if column.kind == Kind::Key {
                let more = left.min(full - *width);
                *width += more;
                left -= more;
            }
        }
        if let (Some(last), Some(column)) = (widths.last_mut(), self.columns.last())
            && !column.is_number()
        {
            *last += left;
        }
        let headings = headings.iter().zip(self.columns).zip(&*widths);
        headings
            .map(|((heading, column), width)| match column.short {
                Some(short) if text::width(heading) > *width => Cow::Owned(
                    text::shortened(&short.to_uppercase(), *width)
                        .0
                        .into_owned(),
                ),
                Some(_) | None => text::shortened(heading, *width).0,
            })
            .collect()
    }

    /// Leaves out milliseconds, and then one spare column after the other, from the last on, until a row fits
    /// without much shortening.
    fn leave_out(&self, widths: &mut [usize], screen: usize) {
        let is_too_wide = |widths: &[usize]| {
            let wanted = widths.iter().zip(self.columns);
            let wanted = wanted.map(|(width, column)| match column.kind {
                Kind::Text => TEXT.min(*width),
                Kind::Key => KEY.min(*width),
                Kind::Word | Kind::Time | Kind::Number => *width,
            });
            wanted.sum::<usize>() + gaps(widths) > screen
        };
        if is_too_wide(widths) {
            for (width, column) in widths.iter_mut().zip(self.columns) {
                if column.kind == Kind::Time {
                    *width = SECONDS;
                }
            }
        }
        for at in (0..widths.len()).rev() {
            if self.columns[at].is_spare && is_too_wide(widths) {
                widths[at] = 0;
            }
        }
    }

    /// Shares the room that the other columns leave of `screen` among columns of these kinds: from the
    /// narrowest on, each may have an equal share of the rest. Returns the room that no column needs.
    fn narrow(&self, widths: &mut [usize], screen: usize, kinds: &[Kind]) -> usize {
        let mut left = screen.saturating_sub(gaps(widths));
        let mut shared = Vec::new();
        for (column, width) in self.columns.iter().zip(widths) {
            if *width > 0 && kinds.contains(&column.kind) {
                shared.push(width);
            } else {
                left = left.saturating_sub(*width);
            }
        }
        shared.sort_by_key(|width| **width);
        let mut count = shared.len();
        for width in shared {
            let share = (left / count).max(NARROWEST);
            *width = share.min(*width);
            left = left.saturating_sub(*width);
            count -= 1;
        }
        left
    }

    fn line<'a>(
        &self,
        widths: &[usize],
        cells: impl Iterator<Item = (&'a str, TextStyle)>,
        to: &mut String,
    ) {
        let start = to.len();
        // Spaces are written only when something follows them.
        let mut spaces = 0;
        for (at, ((cell, style), (column, &width))) in
            cells.zip(self.columns.iter().zip(widths)).enumerate()
        {
            if width == 0 {
                continue;
            }
            let cell = match column.kind {
                Kind::Time if width == SECONDS => Cow::Owned(without_millis(cell)),
                Kind::Time | Kind::Text | Kind::Key | Kind::Word | Kind::Number => {
                    Cow::Borrowed(cell)
                }
            };
            let most = if self.screen.width.is_some() && !column.is_number() {
                width
            } else {
                usize::MAX
            };
            let (cell, used) = text::shortened(&cell, most);
            let pad = width.saturating_sub(used);
            spaces += if at > 0 { GAP.len() } else { 0 };
            if column.is_number() {
                spaces += pad;
            }
            if used > 0 {
                text::write_spaces(spaces, to);
                style.paint(&cell, self.screen.colour, to);
                spaces = 0;
            }
            if !column.is_number() {
                spaces += pad;
            }
        }
        // A text may end with spaces of its own.
        to.truncate(start + to[start..].trim_end_matches(' ').len());
        to.push('\n');
    }
}

/// The spaces between columns that are not left out.
fn gaps(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0).count();
    GAP.len() * shown.saturating_sub(1)
}

/// Returns `2026-11-21T10:33:00Z`; a text that is no such time stays as it is.
fn without_millis(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => time.to_owned(),
    }
}

const TIME: usize = "2026-11-21T10:33:00.000Z".len();
const SECONDS: usize = "2026-11-21T10:33:00Z".len();
/// The room that a key gets before texts get more than the least: the length of a UUID.
const KEY: usize = 36;
/// The room that a text should get before a spare column gets any.
const TEXT: usize = 12;
/// The greatest width of a column where nothing is shortened, so that one long value does not push every row
/// away.
const USUAL: usize = 64;
/// The number of rows that decide the widths.
const FIRST_PAGE: usize = 100;
const GAP: &str = "  ";
/// The most room for the heading of a number if there is too little room.
const SHORT_HEADING: usize = 8;
/// The least width of a column.
const NARROWEST: usize = 4;

#[cfg(test)]
mod tests;
