//! The state of the effects' target, and its consequences for messages.

use std::time::Duration;

use semel_core::port::source::DeliveryId;
use semel_core::{Claim, Settlement, Store};

use super::RunState;
use crate::consumer::in_hand::InHand;
use crate::consumer::pause::{Judged, Moment, Told};
use crate::consumer::report::settlement;
use crate::effect::Verdict;
use crate::event::Event;

impl<S: Store + Clone> RunState<S> {
    /// Returns how many more effects may begin beside those in flight, as far as their target is concerned.
    pub(in crate::consumer) fn room(&self, in_flight: usize) -> usize {
        self.circuit.room(self.now(), in_flight)
    }

    /// Returns the time of the next try of the target, while the pipeline pauses and has a message to try it with, or
    /// the time at which its return is confirmed.
    pub(in crate::consumer) fn next_try(&self) -> Option<Duration> {
        if let Some(confirmed_at) = self.circuit.confirmed_at() {
            return Some(confirmed_at);
        }
        let next = self.circuit.next_try(self.now())?;
        (!self.outstanding.is_empty()).then_some(next)
    }

    /// Tells whether `count` effects may all be set aside before the pipeline pauses.
    pub(in crate::consumer) fn may_all_fail(&self, count: usize) -> bool {
        self.circuit.may_all_fail(count)
    }

    /// Tells whether the pipeline pauses.
    pub(in crate::consumer) fn is_paused(&self) -> bool {
        self.circuit.is_paused()
    }

    /// Notes that the effect of a message is about to begin; returns `false` if it must not, because the pipeline
    /// pauses.
    pub(in crate::consumer) fn begins(&mut self, delivery: DeliveryId) -> bool {
        let now = self.now();
        self.circuit.begins(now, delivery)
    }

    /// Notes that nobody will hear how the effect of a message ended.
    pub(in crate::consumer) fn ends_unheard(&mut self, delivery: DeliveryId) {
        self.circuit.lost(delivery);
    }

    /// Takes ready messages, at most `max`. While the pipeline pauses, one that has not tried the target yet goes
    /// first.
    pub(in crate::consumer) fn take_ready(&mut self, max: usize) -> Vec<InHand> {
        if !self.circuit.is_paused() || self.circuit.vain_tries() == 0 {
            let mut taken = self.outstanding.take(max);
            self.begin_taken(&mut taken);
            return taken;
        }
        let mut taken = Vec::new();
        while taken.len() < max {
            let one = self
                .outstanding
                .take_one(|delivery| !self.circuit.has_tried(delivery));
            if one.is_empty() {
                break;
            }
            taken.extend(one);
        }
        self.begin_taken(&mut taken);
        taken
    }

    /// Emits how many messages are in hand: a strategy may take them, work on them and settle them in one turn.
    fn begin_taken(&self, taken: &mut [InHand]) {
        if !taken.is_empty() {
            self.context.begin_traces(taken);
            self.outstanding.tell_in_hand();
        }
    }

    /// Returns how many more messages may be taken in hand if every ready message has tried the target in vain, so that
    /// only another message can show whether the target fails or these messages do: one for each vain try, since
    /// messages that wait behind these in their lanes cannot try either.
    pub(super) fn room_to_try(&self) -> usize {
        if self.circuit.awaits_a_try()
            && !self
                .outstanding
                .has(|delivery| !self.circuit.has_tried(delivery))
        {
            self.circuit.vain_tries()
        } else {
            0
        }
    }

    /// Emits that a call of a message's effect ended, and that it took this long.
    pub(in crate::consumer) fn effect_ended(
        &self,
        incoming: &mut InHand,
        verdict: &Verdict,
        took: Duration,
    ) {
        self.call_ended(incoming, verdict, took, false);
    }

    /// Emits the same of a call that was the message's claim as well.
    pub(in crate::consumer) fn transaction_ended(
        &self,
        incoming: &mut InHand,
        verdict: &Verdict,
        took: Duration,
    ) {
        self.call_ended(incoming, verdict, took, true);
    }

    fn call_ended(
        &self,
        incoming: &mut InHand,
        verdict: &Verdict,
        took: Duration,
        with_claim: bool,
    ) {
        incoming.timing_mut().add_effect(took);
        self.context.trace_effect(incoming, verdict, took);
        let event = Event::EffectEnded {
            operation: &incoming.request.operation,
            verdict,
            took,
            with_claim,
        };
        self.context.observe_message(incoming, &event);
    }

    /// Hears how an effect ended, and emits a pause that begins or ends with it.
    pub(in crate::consumer) fn hear(&mut self, delivery: DeliveryId, verdict: &Verdict) -> Judged {
        let mut chance = [0];
        if self.circuit.needs_chance(verdict) {
            self.context.surroundings.entropy.fill(&mut chance);
        }
        let moment = Moment {
            now: self.now(),
            chance: chance[0],
        };
        let judged = self.circuit.heard(moment, delivery, verdict);
        self.tell_of_target();
        judged
    }

    /// Ends a pause whose target has been back for long enough.
    pub(in crate::consumer) fn confirm_return(&mut self) {
        if let Some(confirmed_at) = self.circuit.confirmed_at()
            && confirmed_at <= self.now()
        {
            self.circuit.confirm();
            self.tell_of_target();
        }
    }

    /// Emits, at the end of the run, that the target is back: there is nothing more to try it with.
    pub(super) fn end_pause(&mut self) {
        self.circuit.confirm();
        self.tell_of_target();
    }

    fn tell_of_target(&mut self) {
        for told in self.circuit.told() {
            match told {
                // A run that ends waits for nothing any more.
                Told::Paused { .. } if self.outstanding.is_stopping() => {}
                Told::Paused { cause, error, wait } => {
                    let error = &error;
                    self.context.observe(&Event::Paused { cause, error, wait });
                }
                Told::Resumed { cause, lasted } => {
                    self.context.observe(&Event::Resumed { cause, lasted });
                }
            }
        }
    }

    /// Returns the report of a claim whose effect ended with this verdict.
    pub(in crate::consumer) fn report_of(
        &mut self,
        delivery: DeliveryId,
        claim: Claim,
        verdict: Verdict,
    ) -> Settlement {
        let judged = self.hear(delivery, &verdict);
        let verdict = self.with_doubt(delivery, verdict);
        settlement(&self.context.pipeline, claim, verdict, judged)
    }
}
