//! Series: the last hour of what the worker counts, for plots.

use semel_core::Timestamp;
use semel_http::Problem;
use semel_operate::value::Time;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// The members that a query may have.
pub(crate) const MEMBERS: &[&str] = &["family", "pipeline"];

/// The series that are wanted: all of them where nothing is named.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeriesQuery<'q> {
    /// Only those of this family.
    pub family: Option<&'q str>,
    /// Only those of this pipeline.
    pub pipeline: Option<&'q str>,
}

/// The last hour of some series.
#[derive(Debug, Default)]
pub struct Series {
    /// The seconds between two points.
    pub step_secs: u64,
    /// The time of the last point; none while there is none.
    pub until: Option<Timestamp>,
    /// The number of points that each has.
    pub points: usize,
    /// The number of series that are not kept, because there are too many.
    pub left_out: usize,
    /// The series.
    pub items: Vec<Plot>,
}

/// The last hour of one series.
#[derive(Debug, Serialize)]
pub struct Plot {
    /// The name of its family, as a scrape has it.
    pub family: Box<str>,
    /// Its labels.
    #[serde(serialize_with = "as_object")]
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// The meaning of its values, in a word.
    pub kind: &'static str,
    /// Its values, the oldest first; not a number where nothing is known.
    pub values: Vec<f32>,
}

/// The answer.
#[derive(Serialize)]
struct SeriesAnswer<'s> {
    /// The version of the format.
    semel: u32,
    step_secs: u64,
    until: Option<Time>,
    points: usize,
    items: &'s [Plot],
    left_out: usize,
    /// False if some are left out.
    complete: bool,
}

/// Returns the answer that has these series.
pub(crate) fn answer(series: &Series) -> Result<Vec<u8>, Problem> {
    crate::answer::text(&SeriesAnswer {
        semel: VERSION,
        step_secs: series.step_secs,
        until: series.until.map(Time),
        points: series.points,
        items: &series.items,
        left_out: series.left_out,
        complete: series.left_out == 0,
    })
}

fn as_object<S: Serializer>(labels: &[(Box<str>, Box<str>)], to: S) -> Result<S::Ok, S::Error> {
    let mut object = to.serialize_map(Some(labels.len()))?;
    for (name, value) in labels {
        object.serialize_entry(name, value)?;
    }
    object.end()
}

/// The version of the format.
const VERSION: u32 = 1;
