//! The order in which a batch goes out: messages of one order key one after the other, all else together.

use std::collections::{HashMap, HashSet, VecDeque};

use semel_core::ByteString;
use semel_core::outbox::Outgoing;

use crate::slow::Slow;

/// A batch in waves. A wave has one message of each order key at most, so that a message that fails holds up those
/// behind it, and only those.
#[derive(Debug)]
pub(crate) struct Waves {
    waves: VecDeque<Vec<Outgoing>>,
    held_up: HashSet<ByteString>,
}

impl Waves {
    /// Divides messages that are in the order in which they are to go out. Order keys of slow messages come last, in
    /// waves of their own.
    pub(crate) fn of(messages: Vec<Outgoing>, slow: &Slow) -> Self {
        let slow_ones = messages.iter().filter(|it| slow.has(it.id));
        let slow_keys: HashSet<_> = slow_ones.filter_map(|it| it.order_key.clone()).collect();
        let is_last = |it: &Outgoing| {
            let key = it.order_key.as_ref();
            slow.has(it.id) || key.is_some_and(|key| slow_keys.contains(key))
        };
        let (last, first) = messages.into_iter().partition::<Vec<_>, _>(is_last);
        let mut waves = divided(first);
        waves.extend(divided(last));
        Self {
            waves,
            held_up: HashSet::new(),
        }
    }

    /// Returns the next wave without what is held up.
    pub(crate) fn next_wave(&mut self) -> Option<Vec<Outgoing>> {
        let mut wave = self.waves.pop_front()?;
        let is_free = |it: &Outgoing| {
            it.order_key
                .as_ref()
                .is_none_or(|key| !self.held_up.contains(key))
        };
        wave.retain(is_free);
        Some(wave)
    }

    /// Holds up what comes after this message.
    pub(crate) fn hold_up(&mut self, message: &Outgoing) {
        if semel_core::planted("X06") {
            return;
        }
        self.held_up.extend(message.order_key.clone());
    }
}

/// Divides messages into waves, each with one of an order key at most.
fn divided(messages: Vec<Outgoing>) -> VecDeque<Vec<Outgoing>> {
    let mut waves: VecDeque<Vec<Outgoing>> = VecDeque::new();
    let mut next: HashMap<ByteString, usize> = HashMap::new();
    for message in messages {
        let wave = match &message.order_key {
            None => 0,
            Some(_) if semel_core::planted("X02") => 0,
            Some(key) => {
                let next = next.entry(key.clone()).or_default();
                *next += 1;
                *next - 1
            }
        };
        if waves.len() <= wave {
            waves.push_back(Vec::new());
        }
        if let Some(wave) = waves.get_mut(wave) {
            wave.push(message);
        }
    }
    waves
}

#[cfg(test)]
mod tests {
    use semel_core::outbox::OutboxId;

    use super::*;

    fn message(id: u128, key: Option<&'static str>) -> Outgoing {
        Outgoing {
            id: OutboxId::from_u128(id),
            partition: 0,
            place: 0,
            order_key: key.map(ByteString::from_static),
            headers: Ok(Vec::new()),
            payload: semel_core::ByteString::from_static("x").into_bytes(),
            attempts: 0,
        }
    }

    #[test]
    fn a_wave_has_one_message_of_each_order_key_and_none_behind_one_that_failed() {
        let messages = [
            (1, Some("a")),
            (2, Some("a")),
            (3, None),
            (4, Some("b")),
            (5, None),
            (6, Some("b")),
            (7, Some("a")),
        ];
        let messages = messages.map(|(id, key)| message(id, key)).into();
        let mut waves = Waves::of(messages, &Slow::default());
        let ids = |wave: Option<Vec<Outgoing>>| {
            wave.map(|wave| wave.iter().map(|it| it.id.as_u128()).collect::<Vec<_>>())
        };
        assert_eq!(ids(waves.next_wave()), Some(vec![1, 3, 4, 5]));
        waves.hold_up(&message(1, Some("a")));
        waves.hold_up(&message(3, None));
        assert_eq!(ids(waves.next_wave()), Some(vec![6]));
        assert_eq!(ids(waves.next_wave()), Some(vec![]));
        assert_eq!(ids(waves.next_wave()), None);
    }

    #[test]
    fn order_keys_of_slow_messages_come_last() {
        let mut slow = Slow::default();
        for id in [1, 4] {
            slow.again(OutboxId::from_u128(id));
        }
        let messages = [
            (1, Some("a")),
            (2, Some("a")),
            (3, Some("b")),
            (4, None),
            (5, Some("b")),
        ];
        let messages = messages.map(|(id, key)| message(id, key)).into();
        let waves = Waves::of(messages, &slow).waves;
        let ids = |wave: &Vec<Outgoing>| wave.iter().map(|it| it.id.as_u128()).collect::<Vec<_>>();
        let waves: Vec<_> = waves.iter().map(ids).collect();
        assert_eq!(waves, [vec![3], vec![5], vec![1, 4], vec![2]]);
    }
}
