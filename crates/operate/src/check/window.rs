//! Compares the window of a pipeline with its broker: the time for which a message can come again with the time
//! for which its key is remembered. The broker's adapter asks the broker.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use semel_config::{Front, PipelineSettings, SourceSettings};
use semel_core::port::horizon::{Horizon, HorizonReport};
use semel_core::units::{self, duration_text, spelled};
use semel_core::{Error, ErrorKind, Result, Timestamp, Window};
use semel_engine::effect::{Class, OnDoubt, within_provider_window};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::attempts;

/// The settings of a pipeline that matter for the window.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct Terms {
    class: Class,
    window: Window,
    /// The longest time that a message may be in hand after it arrived: the attempts of one message.
    in_hand: Duration,
    /// True if the time of birth is selected.
    has_birth: bool,
    /// True if a sequence gate knows each message that comes again.
    is_numbered: bool,
    /// True if a filter in memory replaces the records.
    is_approximate: bool,
    /// True if a window that is too short is accepted by name.
    is_accepted: bool,
}

/// The conclusion from terms and horizons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The time for which a key has to be remembered.
    pub needed: Horizon,
    /// The time that the age gate uses.
    pub gate: Gate,
    /// The comparison of the window with the time that is needed.
    pub verdict: Verdict,
    /// True if the verdict is accepted by name.
    pub is_accepted: bool,
}

/// The time that the age gate of a pipeline uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// The time at which the broker took the message in.
    Appended,
    /// The selector `birth`.
    Birth,
    /// Nothing: no message is too old.
    Off,
}

/// The comparison of a window with the time that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The window outlasts the broker.
    Enough,
    /// Nobody knows for how long the broker keeps a message.
    Unknown,
    /// A message that comes after the window is set aside and not repeated.
    SetsAside,
    /// A message that comes after the window is known by its number.
    Numbered,
    /// A message that comes after the window is repeated, and the class of the effect allows that.
    RepeatsBorne,
    /// A message that comes after the window is repeated.
    Repeats,
}

impl Terms {
    /// Takes the settings that matter out of `settings`.
    pub fn of(settings: &PipelineSettings) -> Self {
        let pipeline = &settings.pipeline;
        Self {
            class: settings.effect.class(),
            window: pipeline.window,
            in_hand: attempts::longest(settings),
            has_birth: pipeline.birth.is_some(),
            is_numbered: settings
                .sequence_gate
                .as_ref()
                .is_some_and(|it| it.is_required && it.stops_at_gap),
            is_approximate: matches!(settings.layers.front, Front::Approximate(_)),
            is_accepted: settings.waived.window,
        }
    }

    /// Compares the window with the horizons of the broker.
    ///
    /// | | gate on | gate off |
    /// |---|---|---|
    /// | needed ≤ window | enough | enough |
    /// | needed > window, or without end | sets aside | repeats |
    /// | needed unknown | unknown | unknown |
    ///
    /// Behind a sequence gate that requires numbers and ends the pipeline at a gap, the last two of the second column are
    /// numbered, if the window outlasts the attempts of a message and a stop of a day.
    ///
    /// A message that the broker has now counts as well, even if it is older than the settings allow.
    pub fn judge(self, horizons: &HorizonReport, now: Timestamp) -> Judgement {
        let longest = horizons.redelivery.max(horizons.replay);
        let seen = horizons.oldest.map(|oldest| now.since(oldest));
        let longest = match (longest, seen) {
            (Horizon::Within(told), Some(seen)) => Horizon::Within(told.max(seen)),
            (Horizon::Unknown, Some(seen)) if seen > self.window.duration() => {
                Horizon::Within(seen)
            }
            (told, _) => told,
        };
        let needed = longest.plus(self.in_hand).plus(self.window.margin());
        let gate = if horizons.is_stamped {
            Gate::Appended
        } else if self.has_birth {
            Gate::Birth
        } else {
            Gate::Off
        };
        let verdict = match (needed, gate) {
            (Horizon::Within(needed), _) if needed <= self.window.duration() => Verdict::Enough,
            // A gate that requires numbers, and sets nothing aside whose number stays open, knows what comes again for ever.
            (_, Gate::Off) if self.is_numbered && self.outlasts_a_stop() => Verdict::Numbered,
            (Horizon::Unknown, _) => Verdict::Unknown,
            (Horizon::Within(_) | Horizon::Endless, Gate::Appended | Gate::Birth) => {
                Verdict::SetsAside
            }
            (Horizon::Within(_) | Horizon::Endless, Gate::Off) if self.bears(needed) => {
                Verdict::RepeatsBorne
            }
            (Horizon::Within(_) | Horizon::Endless, Gate::Off) => Verdict::Repeats,
        };
        Judgement {
            needed,
            gate,
            verdict,
            is_accepted: self.is_accepted && verdict == Verdict::Repeats,
        }
    }

    /// Tells whether the window outlasts a stop of all workers, after which the store's own messages may be run again.
    fn outlasts_a_stop(self) -> bool {
        let attempts = self.in_hand.saturating_add(self.window.margin());
        attempts.saturating_add(LONGEST_STOP) <= self.window.duration()
    }

    /// Tells whether the class promises no more than remains after a repeat.
    fn bears(self, needed: Horizon) -> bool {
        if self.is_approximate {
            // Its filter forgets at every restart.
            return true;
        }
        match (self.class, needed) {
            (Class::Unkeyed(OnDoubt::Repeat), _) => true,
            // The provider recognises the key, which depends on the operation alone.
            (Class::Keyed { provider_window }, Horizon::Within(needed)) => {
                within_provider_window(provider_window) >= needed
            }
            (Class::Keyed { .. }, Horizon::Endless | Horizon::Unknown)
            | (Class::Transactional | Class::Streamed | Class::Unkeyed(OnDoubt::Park), _) => false,
        }
    }
}

impl Judgement {
    /// Lets a run begin, or refuses it.
    ///
    /// # Errors   `InvalidConfig`, with both durations and advice
    pub fn check(&self, settings: &PipelineSettings) -> Result<()> {
        if self.verdict != Verdict::Repeats || self.is_accepted {
            return Ok(());
        }
        let name = &settings.pipeline.name;
        let why = self.why(settings).unwrap_or_default();
        let advice = self.advice(settings);
        let message = format!("{name}: {why}; {advice}");
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }

    /// Explains the verdict in one clause; nothing if the window is long enough.
    pub fn why(&self, settings: &PipelineSettings) -> Option<String> {
        let window = duration_text(settings.pipeline.window.duration());
        let again = match self.needed {
            Horizon::Within(needed) => format!(
                "a message can come again for {} (margin and attempts included)",
                spelled(needed)
            ),
            Horizon::Endless => {
                "the broker keeps messages without end, and any can come again".to_owned()
            }
            Horizon::Unknown => "how long a message can come again could not be read".to_owned(),
        };
        let then = match self.verdict {
            Verdict::Enough => return None,
            Verdict::Unknown => match self.gate {
                Gate::Off => format!("whether the window of {window} outlasts it is not known"),
                Gate::Appended | Gate::Birth => format!(
                    "whether the window of {window} outlasts it is not known; what is older is set aside, not repeated"
                ),
            },
            Verdict::SetsAside => format!(
                "the window is {window}: what comes later, for the first time too, is set aside as too-old"
            ),
            Verdict::Numbered => {
                format!("the window is {window}: what comes later is known by its number")
            }
            Verdict::RepeatsBorne => format!(
                "the window is {window}: what comes later counts as new, which this class of effect bears"
            ),
            Verdict::Repeats => format!(
                "the window is {window}: what comes later counts as new, and its effect happens again"
            ),
        };
        Some(format!("{again}, and {then}"))
    }

    /// Says what the operator can do about it.
    pub fn advice(&self, settings: &PipelineSettings) -> String {
        let (retention, birth) = of_source(&settings.source);
        let mut ways = Vec::new();
        match self.needed {
            Horizon::Within(needed) => {
                ways.push(format!("set `window = \"{}\"`", round(needed)));
                ways.push(format!("shorten {retention}"));
            }
            Horizon::Endless => ways.push(format!("give the broker an end: {retention}")),
            Horizon::Unknown => {
                ways.push(
                    "say how long the broker keeps a message: `retention = \"7d\"` of the source"
                        .to_owned(),
                );
            }
        }
        if self.gate == Gate::Off {
            ways.push(format!(
                "name the time of birth, as in `birth = \"{birth}\"`, so that what is too old is set aside"
            ));
        }
        if self.verdict == Verdict::Repeats {
            ways.push(format!("accept it with {OVERRIDE}"));
        }
        let last = ways.pop().unwrap_or_default();
        if ways.is_empty() {
            return last;
        }
        format!("{}, or {last}", ways.join(", "))
    }
}

/// Returns the setting of the broker that ends a message, and the places where a birth may be.
const fn of_source(source: &SourceSettings) -> (&'static str, &'static str) {
    match source {
        SourceSettings::Kafka(_) => (
            "the topic's `retention.ms` and `segment.ms`",
            "header:kafka-create-time",
        ),
        SourceSettings::Nats(_) => ("the stream's `max_age`", "json:/created_at"),
        SourceSettings::Amqp(_) => ("the queue's `x-message-ttl`", "json:/created_at"),
        SourceSettings::Webhook(_) => (
            "what is sent again, and say so with `retention` of the source",
            "json:/created",
        ),
        SourceSettings::Ingest(_) => (
            "what producers send again, and say so with `retention` of the source",
            "json:/created_at",
        ),
        SourceSettings::File { .. } | SourceSettings::Stdin { .. } => {
            ("what is read", "json:/created_at")
        }
    }
}

/// The longest stop of all workers that is allowed for.
const LONGEST_STOP: Duration = Duration::from_secs(86_400);

/// Rounds up to the next duration that is easily written.
fn round(needed: Duration) -> String {
    let (day, hour, minute) = (86_400, 3_600, 60);
    let secs = needed.as_secs() + u64::from(needed.subsec_nanos() > 0);
    let unit = [day, hour, minute, 1];
    let unit = unit.into_iter().find(|unit| secs >= *unit).unwrap_or(1);
    duration_text(Duration::from_secs(secs.div_ceil(unit).max(1) * unit))
}

impl Gate {
    /// Returns the gate as it is known before the broker was asked.
    pub const fn unasked(settings: &PipelineSettings) -> Self {
        match &settings.source {
            // Every stream tells when it took a message in.
            SourceSettings::Nats(_) | SourceSettings::Ingest(_) => Self::Appended,
            SourceSettings::File { .. }
            | SourceSettings::Stdin { .. }
            | SourceSettings::Kafka(_)
            | SourceSettings::Amqp(_)
            | SourceSettings::Webhook(_) => match settings.pipeline.birth {
                Some(_) => Self::Birth,
                None => Self::Off,
            },
        }
    }
}

impl Verdict {
    /// Returns the name for people and programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enough => "enough",
            Self::Unknown => "unknown",
            Self::SetsAside => "sets-aside",
            Self::Numbered => "numbered",
            Self::RepeatsBorne => "repeats-borne",
            Self::Repeats => "repeats",
        }
    }
}

/// A horizon as it is printed.
#[derive(Clone, Copy, Debug)]
pub struct Shown(pub Horizon);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Horizon::Within(length) => f.write_str(&spelled(length)),
            Horizon::Endless => f.write_str("endless"),
            Horizon::Unknown => f.write_str("unknown"),
        }
    }
}

/// Output for programs has a duration as one number with its unit.
impl Serialize for Shown {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0 {
            Horizon::Within(length) => to.serialize_str(&duration_text(length)),
            Horizon::Endless => to.serialize_str("endless"),
            Horizon::Unknown => to.serialize_str("unknown"),
        }
    }
}

impl<'de> Deserialize<'de> for Shown {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(from)?;
        Ok(Self(match &*text {
            "endless" => Horizon::Endless,
            "unknown" => Horizon::Unknown,
            text => Horizon::Within(units::duration(text).map_err(D::Error::custom)?),
        }))
    }
}

/// The setting that overrides the rule.
pub const OVERRIDE: &str = "`accept = [\"window-too-short\"]` in the pipeline";

#[cfg(test)]
mod tests;
