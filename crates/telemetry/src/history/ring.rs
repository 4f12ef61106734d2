//! Rings: the last points of each series.

use std::collections::BTreeMap;

use super::scrape::{Line, labels};
use super::{MOST_SERIES, POINTS, SeriesKind};

/// The last points of every series. All rings have the same place for the same point.
#[derive(Debug, Default)]
pub(super) struct Rings {
    all: BTreeMap<(Box<str>, SeriesKind), Ring>,
    /// The points that were taken, the missed ones included.
    taken: usize,
    /// The series of this point for which there is no room, and those of the last one.
    beyond: usize,
    left_out: usize,
    /// True once a series was not kept, or no longer: one that is met for the first time may be such a one.
    has_lost: bool,
}

/// The last points of a series.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) family: Box<str>,
    pub(super) labels: Vec<(Box<str>, Box<str>)>,
    pub(super) kind: SeriesKind,
    values: Box<[f32]>,
    /// The number of the point at which it was last met.
    met: usize,
}

impl Rings {
    /// Begins a point, at which nothing is known yet.
    pub(super) fn begin(&mut self) {
        let place = self.taken % POINTS;
        for ring in self.all.values_mut() {
            ring.values[place] = f32::NAN;
        }
        self.taken += 1;
        self.beyond = 0;
    }

    /// Passes over points that were missed.
    pub(super) fn skip(&mut self, missed: usize) {
        for _ in 0..missed.min(POINTS) {
            self.begin();
        }
    }

    /// Sets the value of a series at the point in hand.
    pub(super) fn push(&mut self, family: &str, line: &Line<'_>, kind: SeriesKind, value: f32) {
        let (met, place) = (self.taken, (self.taken - 1) % POINTS);
        let value = if value.is_finite() { value } else { f32::NAN };
        let key = (Box::from(line.series), kind);
        if let Some(ring) = self.all.get_mut(&key) {
            ring.values[place] = value;
            ring.met = met;
            return;
        }
        if self.all.len() >= MOST_SERIES {
            self.beyond += 1;
            self.has_lost = true;
            return;
        }
        let mut values = vec![f32::NAN; POINTS].into_boxed_slice();
        values[place] = value;
        let ring = Ring {
            family: family.into(),
            labels: labels(line.labels),
            kind,
            values,
            met,
        };
        self.all.insert(key, ring);
    }

    /// Ends a point: drops the series that have not been met for as long as they are kept.
    pub(super) fn end(&mut self) {
        self.left_out = self.beyond;
        let taken = self.taken;
        let before = self.all.len();
        self.all.retain(|_, ring| taken - ring.met < POINTS);
        self.has_lost |= self.all.len() < before;
    }

    /// Tells whether a series that has no ring may be an old one.
    pub(super) const fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// Tells whether there is a ring of this series.
    pub(super) fn is_kept(&self, series: &str) -> bool {
        let kinds = [
            SeriesKind::Value,
            SeriesKind::Rate,
            SeriesKind::Median,
            SeriesKind::P99,
        ];
        let mut kinds = kinds.into_iter();
        kinds.any(|kind| self.all.contains_key(&(series.into(), kind)))
    }

    /// The rings, in the order of their families.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Ring> {
        self.all.values()
    }

    /// The number of points of each.
    pub(super) fn points(&self) -> usize {
        self.taken.min(POINTS)
    }

    /// The number of series of the last point for which there was no room.
    pub(super) const fn left_out(&self) -> usize {
        self.left_out
    }

    /// The values of a ring, the oldest first.
    pub(super) fn values(&self, ring: &Ring) -> Vec<f32> {
        let first = self.taken - self.points();
        let places = (first..self.taken).map(|point| point % POINTS);
        places.map(|place| ring.values[place]).collect()
    }
}

impl Ring {
    /// The value of a label.
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        let mut labels = self.labels.iter();
        let (_, value) = labels.find(|(known, _)| **known == *name)?;
        Some(value)
    }
}
