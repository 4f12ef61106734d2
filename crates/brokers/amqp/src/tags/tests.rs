use super::*;

fn handed_out(tags: &mut Tags, range: std::ops::RangeInclusive<u64>) -> Vec<DeliveryId> {
    range.map(|tag| tags.hand_out(tag)).collect()
}

fn one(tag: u64) -> BasicAck {
    BasicAck {
        tag,
        is_multiple: false,
    }
}

fn up_to(tag: u64) -> BasicAck {
    BasicAck {
        tag,
        is_multiple: true,
    }
}

#[test]
fn only_what_is_named_is_settled() {
    let mut tags = Tags::new();
    let ids = handed_out(&mut tags, 1..=6);
    assert_eq!(tags.settle([ids[3], ids[1]]), [one(2), one(4)]);
    assert_eq!(tags.settle([ids[3], ids[1]]), [], "once");
    assert_eq!(
        tags.settle([ids[0], ids[2]]),
        [up_to(3)],
        "2 was settled before"
    );
    assert_eq!(tags.settle([ids[5], ids[4], ids[4]]), [up_to(6)]);
}

#[test]
fn what_is_to_be_given_back_stops_a_joint_acknowledgement() {
    let mut tags = Tags::new();
    let ids = handed_out(&mut tags, 1..=4);
    assert!(tags.hold(&[ids[1]]));
    assert!(!tags.hold(&[ids[1]]), "it is held already");
    assert_eq!(tags.settle(ids.clone()), [one(1), one(3), one(4)]);
    assert_eq!(tags.give_back(), BTreeSet::from([2]));
    assert!(tags.settle(ids.clone()).is_empty() && !tags.is_holding());
    assert!(!tags.hold(&ids), "what the broker has back is nobody's");
}

#[test]
fn an_id_of_an_older_channel_means_nothing() {
    let mut tags = Tags::new();
    let old = handed_out(&mut tags, 1..=3);
    assert!(tags.hold(&old[..1]));
    assert_eq!(tags.lose(), old[1..]);
    let new = handed_out(&mut tags, 1..=2);
    assert!(new.iter().all(|id| !old.contains(id)));
    assert_eq!(tags.settle(old.clone()), []);
    assert!(!tags.hold(&old));
    assert_eq!(
        tags.settle([DeliveryId(0), DeliveryId(u64::MAX), new[1]]),
        [one(2)]
    );
}

#[test]
fn a_tag_that_was_never_seen_is_never_settled_along() {
    let mut tags = Tags::new();
    let ids: Vec<_> = [1, 2, 4, 5].map(|tag| tags.hand_out(tag)).into();
    assert_eq!(tags.settle(ids.clone()), [one(1), one(2), one(4), one(5)]);
}

/// Checks against a broker that does exactly what the acknowledgements say.
#[test]
fn the_broker_settles_what_was_named_and_nothing_else() {
    let mut state = 7_u64;
    let mut draw = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    for _ in 0..300 {
        let mut tags = Tags::new();
        let (mut broker, mut named) = (BTreeSet::new(), BTreeSet::new());
        let mut ids = Vec::new();
        for tag in 1..=draw(30) + 1 {
            broker.insert(tag);
            ids.push(tags.hand_out(tag));
            let batch: Vec<_> = (0..draw(4))
                .map(|_| ids[usize::try_from(draw(tag)).expect("small")])
                .collect();
            if draw(4) == 0 {
                tags.hold(&batch);
                continue;
            }
            if draw(8) == 0 {
                for tag in tags.give_back() {
                    assert!(broker.remove(&tag), "an unknown tag closes the channel");
                    named.insert(tag);
                }
            }
            for id in &batch {
                if !tags.held.contains(&id.0) {
                    named.insert(id.0);
                }
            }
            for told in tags.settle(batch) {
                assert!(
                    broker.contains(&told.tag),
                    "an unknown tag closes the channel"
                );
                if told.is_multiple {
                    broker.retain(|tag| *tag > told.tag);
                } else {
                    broker.remove(&told.tag);
                }
            }
            let all: BTreeSet<u64> = (1..=tag).collect();
            assert_eq!(&all - &broker, named);
        }
    }
}
