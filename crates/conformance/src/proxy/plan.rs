//! The plan for the bytes that come: pure, and the same for the same calls.

use std::time::Duration;

use crate::history::random::Random;

/// The sender of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// A piece of bytes as it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) from: Side,
    pub(super) length: u64,
    /// True if the server speaks and the client spoke last.
    pub(super) begins_answer: bool,
}

/// The fate of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Passes,
    /// This many of its bytes pass, and the connection ends.
    Cut {
        after: u64,
        reset: bool,
    },
}

/// The orders that are still to be carried out.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Bytes until a cut, by their sender.
    pub(super) client: Option<u64>,
    pub(super) server: Option<u64>,
    /// Answers until a cut, the one that it takes included.
    pub(super) answers: Option<u64>,
    /// The way in which those cuts end a connection.
    pub(super) reset: bool,
    pub(super) delay: Duration,
    storm: Option<Storm>,
}

#[derive(Debug)]
struct Storm {
    random: Random,
    within: u64,
    from: Side,
    left: u64,
    reset: bool,
}

impl Plan {
    /// Draws cut after cut from `seed`.
    pub(super) fn storm(&mut self, seed: u64, within: u64) {
        let mut storm = Storm {
            random: Random::new(seed),
            within,
            from: Side::Client,
            left: 0,
            reset: false,
        };
        storm.draw();
        self.storm = Some(storm);
    }

    /// Decides on the next piece, and counts it.
    pub(super) fn meet(&mut self, piece: Piece) -> Fate {
        if self.takes_answer(piece) {
            return self.cut(0);
        }
        let asked = match piece.from {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        let asked = spend(asked, piece.length);
        let storm = self.storm.as_mut().and_then(|storm| storm.meet(piece));
        match (asked, storm) {
            (None, None) => Fate::Passes,
            (Some(after), None) => self.cut(after),
            (None, Some(fate)) => fate,
            // Both in one piece: the earlier one ends the connection, and both are spent.
            (Some(after), Some(fate)) => match fate {
                Fate::Cut { after: sooner, .. } if sooner < after => fate,
                Fate::Cut { .. } | Fate::Passes => self.cut(after),
            },
        }
    }

    fn takes_answer(&mut self, piece: Piece) -> bool {
        if !piece.begins_answer {
            return false;
        }
        self.answers = match self.answers {
            Some(1) => {
                self.answers = None;
                return true;
            }
            Some(left) => Some(left - 1),
            None => None,
        };
        false
    }

    const fn cut(&self, after: u64) -> Fate {
        Fate::Cut {
            after,
            reset: self.reset,
        }
    }
}

impl Storm {
    fn draw(&mut self) {
        self.from = self.random.pick(&[Side::Client, Side::Server]);
        self.left = self.random.below(self.within);
        self.reset = self.random.once_in(2);
    }

    fn meet(&mut self, piece: Piece) -> Option<Fate> {
        if piece.from != self.from {
            return None;
        }
        let mut left = Some(self.left);
        let after = spend(&mut left, piece.length);
        let reset = self.reset;
        match left {
            Some(left) => self.left = left,
            None => self.draw(),
        }
        after.map(|after| Fate::Cut { after, reset })
    }
}

/// Takes `length` bytes off the count that is left until a cut. Returns the place of the cut in
/// them, if it falls there.
fn spend(left: &mut Option<u64>, length: u64) -> Option<u64> {
    let count = (*left)?;
    *left = count.checked_sub(length).filter(|left| *left > 0);
    left.is_none().then_some(count)
}
