//! Compares the answers of the live broker with the window.

use std::borrow::Cow;

use semel_config::{PipelineSettings, SourceSettings};
use semel_core::port::horizon::{Fact, HorizonReport};
use semel_core::units::duration_text;
use semel_core::{Error, Timestamp};
use semel_engine::effect::Class;
use serde::{Deserialize, Serialize};

use super::attempts;
use super::finding::{Finding, Place, cows, fail, of_error, warn};
use super::window::{Gate, Judgement, Shown, Terms, Verdict};
use crate::value::{Span, Time};

/// The result of a look at the broker.
#[derive(Debug)]
pub struct Broker {
    /// The time for which its messages can come again; nothing if the source is no broker.
    pub horizons: Result<Option<HorizonReport>, Error>,
    /// The time of the look.
    pub at: Timestamp,
}

impl Broker {
    /// Judges the window by the broker; nothing if there is no broker or the look failed.
    pub fn judgement(&self, settings: &PipelineSettings) -> Option<(&HorizonReport, Judgement)> {
        let horizons = self.horizons.as_ref().ok()?.as_ref()?;
        Some((horizons, Terms::of(settings).judge(horizons, self.at)))
    }

    /// Returns the time that the age gate uses, as far as it is known.
    pub fn gate(&self, settings: &PipelineSettings) -> Gate {
        match self.judgement(settings) {
            Some((_, judgement)) => judgement.gate,
            None => Gate::unasked(settings),
        }
    }

    /// Lists the findings about the broker.
    pub fn findings(&self, settings: &PipelineSettings) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Err(error) = &self.horizons {
            findings.push(of_error(error, Place::Source));
        }
        if let Some((horizons, judgement)) = self.judgement(settings) {
            findings.extend(of_window(settings, &judgement));
            findings.extend(of_limits(settings, horizons));
            let advice = "change the setting of the broker or of the source that it names";
            let warnings = horizons.warnings.iter();
            findings.extend(warnings.map(|warning| warn("source-weak", &**warning, advice)));
        }
        findings.extend(of_transactions(settings));
        findings
    }
}

fn of_window(settings: &PipelineSettings, judgement: &Judgement) -> Option<Finding> {
    let why = judgement.why(settings)?;
    let advice = judgement.advice(settings);
    Some(match judgement.verdict {
        Verdict::Enough | Verdict::Numbered => return None,
        Verdict::Unknown => warn("window-unknown", why, advice),
        Verdict::SetsAside => warn("window-sets-aside", why, advice),
        Verdict::RepeatsBorne => warn("window-too-short", why, advice),
        Verdict::Repeats if judgement.is_accepted => {
            let why = format!("accepted by `accept`: {why}");
            warn("window-too-short", why, advice)
        }
        Verdict::Repeats => fail("window-too-short", why, advice),
    })
}

/// Finds limits at which the broker gives up before Semel does.
fn of_limits(settings: &PipelineSettings, horizons: &HorizonReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    let crashes = settings.pipeline.limits.vanished.get();
    if let Some(most) = horizons.deliveries
        && most <= crashes
    {
        findings.push(warn(
            "delivery-limit-short",
            format!(
                "the broker gives a message up after {most} deliveries, settled or not, and Semel would go \
                 on for {crashes} attempts that vanish with their worker: then nobody has the message"
            ),
            "lift the limit of the broker: attempts are counted by Semel, and a dead message is kept",
        ));
    }
    let longest = attempts::longest(settings);
    if let Some(hold) = horizons.hold
        && longest > hold
    {
        findings.push(warn(
            "consumer-timeout-short",
            format!(
                "the attempts of one message may last {}, and the broker takes a delivery back after {}: \
                 then all that is in hand comes again, over and over",
                duration_text(longest),
                duration_text(hold)
            ),
            "raise the consumer timeout of the queue, or shorten `retry` or the timeout of the effect",
        ));
    }
    findings
}

/// Finds properties of transactions that promise less than their names suggest. R294
fn of_transactions(settings: &PipelineSettings) -> Option<Finding> {
    let SourceSettings::Kafka(source) = &settings.source else {
        return None;
    };
    if settings.effect.class() == Class::Streamed {
        // In this class they do all of it.
        return None;
    }
    let mut properties = source.properties.iter();
    let named = properties.find(|(name, value)| match name.as_str() {
        "isolation.level" => value == "read_committed",
        "enable.idempotence" | "transactional.id" => true,
        _ => false,
    });
    let (name, _) = named?;
    Some(warn(
        "kafka-transactions-end-here",
        format!(
            "`{name}` is about what is in Kafka: no transaction of Kafka reaches the effect, which happens \
             once because of its record"
        ),
        "keep it for what it says of the topic, and count on the class alone",
    ))
}

/// The answers of the live broker about a pipeline: the documented object `reach` of its report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reached {
    /// The time for which a message that was not acknowledged can come again.
    pub redelivery: Shown,
    /// The time for which a message that was acknowledged can be read again.
    pub replay: Shown,
    /// The time for which a key has to be remembered.
    pub needed: Shown,
    /// The window as it is set.
    pub set: Span,
    /// The time that the age gate uses.
    pub age_gate: Gate,
    /// The comparison of the window with the time that is needed.
    pub verdict: Verdict,
    /// The names of the accepted findings.
    pub accepted: Vec<Cow<'static, str>>,
    /// The time at which the broker took in the oldest message that it still has.
    pub oldest: Option<Time>,
    /// The settings of the broker from which the answers follow.
    pub facts: Vec<BrokerFact>,
    /// The settings that could not be read.
    pub unread: Vec<UnreadSetting>,
}

/// A setting of the broker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BrokerFact {
    /// Its name at the broker.
    pub setting: String,
    /// Its value at the broker.
    pub value: String,
    /// The consequence of the value.
    pub meaning: String,
}

/// A setting of the broker that could not be read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UnreadSetting {
    /// Its name at the broker.
    pub setting: String,
    /// The reason why it could not be read.
    pub why: String,
}

impl BrokerFact {
    /// Lays out a fact.
    pub fn of(fact: &Fact) -> Self {
        Self {
            setting: fact.name.to_string(),
            value: fact.value.to_string(),
            meaning: fact.meaning.to_string(),
        }
    }
}

impl Reached {
    /// Takes the answers of `broker`; nothing if there is no broker or the look failed.
    pub fn of(broker: &Broker, settings: &PipelineSettings) -> Option<Self> {
        let (horizons, judgement) = broker.judgement(settings)?;
        let facts = horizons.facts.iter().map(BrokerFact::of);
        let unread = horizons.unread.iter().map(|unread| UnreadSetting {
            setting: unread.name.to_string(),
            why: unread.why.to_string(),
        });
        Some(Self {
            redelivery: Shown(horizons.redelivery),
            replay: Shown(horizons.replay),
            needed: Shown(judgement.needed),
            set: Span(settings.pipeline.window.duration()),
            age_gate: judgement.gate,
            verdict: judgement.verdict,
            accepted: cows(settings.waived.names()),
            oldest: horizons.oldest.map(Time),
            facts: facts.collect(),
            unread: unread.collect(),
        })
    }
}
