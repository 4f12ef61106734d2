use tokio::time::{advance, timeout};

use super::*;

fn arrivals() -> Arc<Arrivals> {
    Arc::new(Arrivals::new(1_000, 4 * BODIES, 1))
}

async fn is_sent_away(body: &mut Arrival) -> bool {
    timeout(Duration::ZERO, body.is_sent_away()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn memory_is_taken_as_it_arrives_and_given_back() {
    let all = arrivals();
    let (first, second) = (all.begin().expect("a place"), all.begin().expect("a place"));
    for arrived in [0, 1, 1_000, 1_000] {
        assert!(first.grow(arrived), "{arrived}");
    }
    assert!(!second.grow(BYTES - 999), "the first is young");
    assert!(second.grow(BYTES - 1_000));
    assert!(!first.grow(1_001), "all is taken");
    drop(second);
    assert!(first.grow(BYTES));
    // One of the longest bodies has room.
    let large = Arc::new(Arrivals::new(2 * BYTES, 4 * BODIES, 1));
    assert!(large.begin().expect("a place").grow(2 * BYTES));
}

#[tokio::test(start_paused = true)]
async fn an_old_body_makes_room_for_another_and_a_young_one_does_not() {
    let all = arrivals();
    let mut slow = all.begin().expect("a place");
    assert!(slow.grow(BYTES - 10));
    let quick = all.begin().expect("a place");
    assert!(!quick.grow(11));
    assert!(!is_sent_away(&mut slow).await);
    advance(YOUTH).await;
    assert!(!slow.grow(BYTES + 1), "no other has memory");
    let mut idle = all.begin().expect("a place");
    assert!(quick.grow(10), "there is room");
    assert!(!is_sent_away(&mut slow).await, "nobody needed its room");
    assert!(quick.grow(11));
    assert!(is_sent_away(&mut slow).await);
    assert!(!is_sent_away(&mut idle).await, "it has no memory");
    assert!(!slow.grow(1), "its memory is gone");
    drop(slow);
    assert_eq!(all.lock().bytes, 11);
    drop((quick, idle));
    let state = all.lock();
    assert_eq!((state.bytes, state.bodies.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_in_hand_makes_no_room_however_old_it_is() {
    let all = arrivals();
    let mut held = all.begin().expect("a place");
    assert!(held.hold(BYTES - 10));
    let young = all.begin().expect("a place");
    advance(YOUTH).await;
    assert!(!young.grow(11));
    assert!(!young.hold(11));
    assert!(young.hold(10));
    let more: Vec<_> = std::iter::from_fn(|| all.begin().filter(|it| it.hold(0))).collect();
    assert_eq!(more.len(), BODIES - 2);
    advance(YOUTH).await;
    assert!(all.begin().is_none());
    assert!(!is_sent_away(&mut held).await);
    drop(held);
    assert!(all.begin().is_some());
}

#[tokio::test(start_paused = true)]
async fn so_many_bodies_arrive_at_once_and_an_old_one_makes_way() {
    let all = arrivals();
    let mut bodies: Vec<_> = (0..BODIES).map(|_| all.begin().expect("a place")).collect();
    assert!(all.begin().is_none());
    advance(YOUTH).await;
    let next = all.begin();
    assert!(next.is_some());
    assert!(is_sent_away(&mut bodies[0]).await);
    assert!(!is_sent_away(&mut bodies[1]).await);
}

#[tokio::test(start_paused = true)]
async fn all_paths_together_leave_most_connections_to_others() {
    for (connections, paths, most) in [(4_096, 1, 1_024), (4_096, 4, 256), (512, 1, 128), (1, 3, 1)]
    {
        let all = Arc::new(Arrivals::new(1_000, connections, paths));
        let bodies: Vec<_> = std::iter::from_fn(|| all.begin()).take(2_000).collect();
        assert_eq!(
            bodies.len(),
            most,
            "{connections} connections, {paths} paths"
        );
    }
}
