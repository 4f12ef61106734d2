//! Detects duplicates that are a habit of a producer or a broker rather than an accident.

/// The numbers of deliveries and duplicates at the last look.
#[derive(Debug)]
pub(super) struct Habits {
    /// True if a broker waits for acknowledgements; a file is simply read again.
    has_broker: bool,
    deliveries: u64,
    redelivered: u64,
    republished: u64,
    told_of_redelivered: bool,
    told_of_republished: bool,
}

impl Habits {
    /// The numbers of a pipeline that has had no delivery yet.
    pub(super) const fn new(has_broker: bool) -> Self {
        Self {
            has_broker,
            deliveries: 0,
            redelivered: 0,
            republished: 0,
            told_of_redelivered: false,
            told_of_republished: false,
        }
    }

    /// Takes the totals so far and returns the warnings about the deliveries since the last look, if those were
    /// enough: each warning once.
    pub(super) fn look(
        &mut self,
        deliveries: u64,
        redelivered: u64,
        republished: u64,
    ) -> Vec<String> {
        let among = deliveries - self.deliveries;
        if among < ENOUGH {
            return Vec::new();
        }
        // Duplicates that are decided, but not counted among the deliveries yet.
        let again = |now: u64, before: u64| (now - before).min(among);
        let (again_by_broker, again_by_producer) = (
            again(redelivered, self.redelivered),
            again(republished, self.republished),
        );
        (self.deliveries, self.redelivered, self.republished) =
            (deliveries, redelivered, republished);
        let mut warnings = Vec::new();
        if again_by_producer * 2 > among && !std::mem::replace(&mut self.told_of_republished, true)
        {
            warnings.push(format!(
                "{again_by_producer} of the last {among} deliveries were published again after they were \
                 done: does the producer send everything twice, or is the key too coarse?"
            ));
        }
        let is_much = self.has_broker && again_by_broker * 2 > among;
        if is_much && !std::mem::replace(&mut self.told_of_redelivered, true) {
            warnings.push(format!(
                "{again_by_broker} of the last {among} deliveries were redelivered after they were \
                 done: does the broker wait long enough for acknowledgements?"
            ));
        }
        warnings
    }
}

/// The least number of deliveries that show a habit.
const ENOUGH: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_habit_is_told_once_and_an_accident_never() {
        let mut habits = Habits::new(true);
        assert!(habits.look(999, 0, 999).is_empty(), "too few to tell");
        let told = habits.look(1_000, 0, 501);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("501 of the last 1000 deliveries were published again"));
        assert!(habits.look(3_000, 0, 2_501).is_empty(), "once is enough");

        let mut habits = Habits::new(true);
        assert!(
            habits.look(1_000, 500, 500).is_empty(),
            "half is no more than half"
        );
        assert!(
            habits.look(1_500, 1_000, 500).is_empty(),
            "the last look was 500 ago"
        );
        let told = habits.look(2_400, 1_900, 500);
        assert!(told[0].starts_with("1400 of the last 1400 deliveries were redelivered"));
    }

    #[test]
    fn a_file_that_is_read_again_has_no_broker_to_warn_of() {
        let mut habits = Habits::new(false);
        assert_eq!(habits.look(5_000, 5_000, 0), [""; 0]);
        assert_eq!(
            habits.look(10_000, 5_000, 5_000).len(),
            1,
            "its producer may be"
        );
    }
}
