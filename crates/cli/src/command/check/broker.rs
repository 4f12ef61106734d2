//! What the live broker says, and whether the window outlasts it.

use semel_config::{PipelineSettings, SourceSettings};
use semel_core::port::reach::{Horizon, Reach};
use semel_core::units::duration_text;
use semel_core::{Error, Timestamp};
use semel_engine::effect::Class;
use serde::Serialize;

use super::finding::{Finding, fail, warn};
use crate::output::value::{Span, Time};
use crate::output::{Block, Column, Entry, Look, Row};
use crate::retries;
use crate::window::{Gate, Judgement, Shown, Terms, Verdict};

/// A broker that was looked at, or that could not be.
pub(super) struct Broker {
    pub(super) reach: Result<Option<Reach>, Error>,
    /// When it was.
    pub(super) at: Timestamp,
}

impl Broker {
    /// What follows from it; nothing where there is no broker or it could not be looked at.
    pub(super) fn judgement(&self, settings: &PipelineSettings) -> Option<(&Reach, Judgement)> {
        let reach = self.reach.as_ref().ok()?.as_ref()?;
        Some((reach, Terms::of(settings).judge(reach, self.at)))
    }

    pub(super) fn gate(&self, settings: &PipelineSettings) -> Gate {
        match self.judgement(settings) {
            Some((_, judgement)) => judgement.gate,
            None => Gate::unasked(settings),
        }
    }

    pub(super) fn findings(&self, settings: &PipelineSettings) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Err(error) = &self.reach {
            let code = error.code().as_str();
            let advice = format!("see `semel explain {code}`");
            findings.push(fail(code, error.to_string(), advice));
        }
        if let Some((reach, judgement)) = self.judgement(settings) {
            findings.extend(of_window(settings, &judgement));
            findings.extend(of_limits(settings, reach));
            let advice = "change the setting of the broker or of the source that it names";
            let warnings = reach.warnings.iter();
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
        Verdict::Enough => return None,
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

/// What the broker gives up on before Semel does.
fn of_limits(settings: &PipelineSettings, reach: &Reach) -> Vec<Finding> {
    let mut findings = Vec::new();
    let crashes = settings.pipeline.limits.vanished.get();
    if let Some(most) = reach.deliveries
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
    let longest = retries::longest(settings);
    if let Some(hold) = reach.hold
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

/// Whoever sets the properties of transactions may expect more of them than they give. R294
fn of_transactions(settings: &PipelineSettings) -> Option<Finding> {
    let SourceSettings::Kafka(source) = &settings.source else {
        return None;
    };
    if settings.effect.class() == Class::Streamed {
        // There they do all of it.
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

/// The documented object.
#[derive(Serialize)]
pub(super) struct Reached<'a> {
    redelivery: Shown,
    replay: Shown,
    needed: Shown,
    set: Span,
    age_gate: Gate,
    verdict: Verdict,
    accepted: Vec<&'static str>,
    oldest: Option<Time>,
    facts: Vec<Told<'a>>,
    unread: Vec<Missing<'a>>,
}

#[derive(Serialize)]
struct Told<'a> {
    setting: &'a str,
    value: &'a str,
    meaning: &'a str,
}

#[derive(Serialize)]
struct Missing<'a> {
    setting: &'a str,
    why: &'a str,
}

impl<'a> Reached<'a> {
    pub(super) fn of(broker: &'a Broker, settings: &PipelineSettings) -> Option<Self> {
        let (reach, judgement) = broker.judgement(settings)?;
        let facts = reach.facts.iter().map(|fact| Told {
            setting: &fact.name,
            value: &fact.value,
            meaning: &fact.meaning,
        });
        let unread = reach.unread.iter().map(|unread| Missing {
            setting: &unread.name,
            why: &unread.why,
        });
        Some(Self {
            redelivery: Shown(reach.redelivery),
            replay: Shown(reach.replay),
            needed: Shown(judgement.needed),
            set: Span(settings.pipeline.window.duration()),
            age_gate: judgement.gate,
            verdict: judgement.verdict,
            accepted: settings.waived.names(),
            oldest: reach.oldest.map(Time),
            facts: facts.collect(),
            unread: unread.collect(),
        })
    }

    pub(super) fn describe(&self, block: &mut Block) {
        let look = match self.verdict {
            Verdict::Enough => Look::Good,
            Verdict::Unknown | Verdict::SetsAside | Verdict::RepeatsBorne => Look::Attention,
            Verdict::Repeats => Look::Bad,
        };
        let (needed, set) = (self.needed, duration_text(self.set.0));
        let outlasts = match needed.0 {
            Horizon::Within(_) => "margin and attempts included",
            Horizon::Endless => "no window outlasts it",
            Horizon::Unknown => "the broker does not tell",
        };
        let verdict = self.verdict.as_str();
        let mut needed = format!("{needed}, {outlasts}; set {set}: {verdict}");
        for name in &self.accepted {
            needed.extend(["; accepted: ", name]);
        }
        block
            .field("redelivery", self.redelivery)
            .field("replay", self.replay)
            .look(look, "needed", &needed);
        for Told {
            setting,
            value,
            meaning,
        } in &self.facts
        {
            block.field("broker", format!("{setting} {value}: {meaning}"));
        }
        for Missing { setting, why } in &self.unread {
            block.look(Look::Attention, "not read", &format!("{setting}: {why}"));
        }
    }
}

/// A row of the table of all pipelines.
#[derive(Serialize)]
pub(super) struct Line {
    pipeline: String,
    class: &'static str,
    redelivery: String,
    replay: String,
    needed: String,
    set: String,
    verdict: &'static str,
    not_read: String,
}

impl Line {
    pub(super) fn of(
        broker: &Broker,
        settings: &PipelineSettings,
        class: &'static str,
    ) -> Option<Self> {
        let pipeline = settings.pipeline.name.to_string();
        let set = duration_text(settings.pipeline.window.duration());
        if let Err(error) = &broker.reach {
            let unknown = || Shown(Horizon::Unknown).to_string();
            return Some(Self {
                pipeline,
                class,
                redelivery: unknown(),
                replay: unknown(),
                needed: unknown(),
                set,
                verdict: Verdict::Unknown.as_str(),
                not_read: error.code().as_str().to_owned(),
            });
        }
        let reached = Reached::of(broker, settings)?;
        let unread: Vec<_> = reached.unread.iter().map(|it| it.setting).collect();
        Some(Self {
            pipeline,
            class,
            redelivery: reached.redelivery.to_string(),
            replay: reached.replay.to_string(),
            needed: reached.needed.to_string(),
            set,
            verdict: reached.verdict.as_str(),
            not_read: if unread.is_empty() {
                "-".to_owned()
            } else {
                unread.join(", ")
            },
        })
    }
}

impl Entry for Line {
    const COLUMNS: &'static [Column] = &[
        Column::key("pipeline"),
        Column::word("class"),
        Column::word("redelivery"),
        Column::word("replay"),
        Column::word("needed"),
        Column::word("set"),
        Column::word("verdict"),
        Column::text("not_read"),
    ];
    const NONE: &'static str = "no brokers";

    fn fill(&self, row: &mut Row) {
        row.text(&self.pipeline)
            .text(self.class)
            .text(&self.redelivery)
            .text(&self.replay)
            .text(&self.needed)
            .text(&self.set)
            .text(self.verdict)
            .text(&self.not_read);
    }
}
