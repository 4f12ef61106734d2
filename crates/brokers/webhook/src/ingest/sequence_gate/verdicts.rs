//! The fate of a message once the journal has said its word about it.

use semel_core::port::source::{Delivery, Fetched, Judgement};
use semel_core::{Code, Error, ErrorKind, Result, Unusable};
use tokio::time::Instant;

use super::judging::{Arrived, Judged, Word};
use super::{BETWEEN_TRIES, GatedSource, SHORTEST_LOOK, is_passing};

impl GatedSource {
    /// Acts on the words of the journal.
    pub(super) fn judged(&mut self, judged: Judged) -> Result<Option<Fetched>> {
        let now = Instant::now();
        for (message, word) in judged.words {
            let id = message.delivery.id;
            self.asked.remove(&id);
            if word == Word::Taken {
                self.to_tell.push(id);
            }
            if matches!(word, Word::Taken | Word::Known) {
                self.stuck_since = None;
                self.pause = SHORTEST_LOOK;
                self.again_at = self.again_at.min(now + SHORTEST_LOOK);
            }
            // Another consumer has it now.
            if self.revoked.remove(&id) {
                if word != Word::Taken {
                    self.to_give_back.push(id);
                }
                continue;
            }
            let told = message.numbers.told();
            match word {
                Word::Taken => {}
                Word::Known => self.known(message.delivery),
                Word::Fenced { epoch } => {
                    let at = format!("{told}, and epoch {epoch} was heard of").into();
                    self.refuse(message, Unusable::ProducerFenced { at })?;
                }
                Word::Gap { expected } | Word::Unknown { expected } => {
                    if self.is_last_look || self.held.is_over(&message, expected) {
                        let at = format!("{told}, and {expected} was expected").into();
                        let unusable = match word {
                            Word::Unknown { .. } => Unusable::ProducerUnknown { at },
                            _ => Unusable::SequenceGap { at },
                        };
                        self.refuse(message, unusable)?;
                    } else {
                        self.hold(message)?;
                    }
                }
            }
        }
        for message in &judged.open {
            self.asked.remove(&message.delivery.id);
        }
        for message in judged.open {
            if self.revoked.remove(&message.delivery.id) {
                self.to_give_back.push(message.delivery.id);
            } else {
                self.arrived.push(message);
            }
        }
        if let Some(next) = judged.next {
            self.arrived
                .extend(self.held.take_next(&judged.producer, next));
        }
        match judged.error {
            Some(error) if is_passing(&error) => {
                self.not_before = Some(now + BETWEEN_TRIES);
                self.is_away = true;
                Ok(Some(Fetched::Away(error)))
            }
            Some(error) => Err(error),
            None if self.not_before.take().is_some() && std::mem::take(&mut self.is_away) => {
                Ok(Some(Fetched::Back))
            }
            None => Ok(None),
        }
    }

    /// Holds a message for those that are missing before it.
    fn hold(&mut self, message: Arrived) -> Result<()> {
        if semel_core::planted("X45") {
            self.to_tell.push(message.delivery.id);
        }
        for first_read in self.held.hold(message) {
            let at = format!("{}, and too many wait", first_read.numbers.told()).into();
            self.refuse(first_read, Unusable::SequenceGap { at })?;
        }
        Ok(())
    }

    /// Sets a message aside, or ends the source where it is to stop at a gap.
    fn refuse(&mut self, message: Arrived, unusable: Unusable) -> Result<()> {
        let is_gap = matches!(
            unusable,
            Unusable::SequenceGap { .. } | Unusable::ProducerUnknown { .. }
        );
        if is_gap && self.options.stops_at_gap {
            let message = format!(
                "{}: {unusable}; nothing of it is acknowledged. Bring what is missing, or set on_gap = \"quarantine\"",
                message.delivery.coordinates
            );
            let error = Error::new(ErrorKind::InvalidInput, message);
            return Err(error.with_code(Code::SequenceGap).not_applied());
        }
        let mut delivery = message.delivery;
        delivery.judgement = Some(Judgement::Refused(unusable));
        self.passed.push_back(delivery);
        Ok(())
    }

    fn known(&mut self, mut delivery: Delivery) {
        delivery.judgement = (!semel_core::planted("X46")).then_some(Judgement::Known);
        self.passed.push_back(delivery);
    }
}
