use axum::http::HeaderMap;
use tokio::time::timeout;

use super::*;
use crate::scheme::Scheme;

fn message(body: &'static str) -> Message {
    let headers = HeaderMap::new();
    Message::new(&Scheme::None, "/", &headers, body.into(), 1_000)
}

fn put(inbox: &Inbox, body: &'static str) -> oneshot::Receiver<Ending> {
    let room = inbox.room(body.len()).expect("room");
    inbox.put(message(body), room).expect("an open inbox")
}

async fn fetch(inbox: &Inbox, max: usize) -> Vec<Delivery> {
    inbox.next(max).await.expect("an open inbox")
}

#[tokio::test]
async fn a_request_learns_the_fate_of_its_own_message() {
    let inbox = Inbox::new(10, 1_000);
    let (one, other) = (put(&inbox, "1"), put(&inbox, "2"));
    let deliveries = fetch(&inbox, 10).await;
    let told = [
        Acknowledgement::new(deliveries[1].id, Fate::Dead),
        Acknowledgement::new(DeliveryId(99), Fate::Applied),
    ];
    inbox.settle(&told);
    inbox.settle(&[Acknowledgement::new(deliveries[0].id, Fate::Applied)]);
    inbox.settle(&told);
    assert_eq!(one.await, Ok(Ending::Settled(Fate::Applied)));
    assert_eq!(other.await, Ok(Ending::Settled(Fate::Dead)));
}

#[tokio::test]
async fn there_is_room_again_once_a_message_is_settled_and_not_when_its_provider_hangs_up() {
    let inbox = Inbox::new(1, 1_000);
    drop(put(&inbox, "1"));
    assert!(inbox.room(1).is_none(), "it is still in hand");
    assert!(!inbox.has_room(1));
    let deliveries = fetch(&inbox, 10).await;
    assert!(inbox.room(1).is_none(), "it is still worked on");
    inbox.settle(&[Acknowledgement::new(deliveries[0].id, Fate::Applied)]);
    assert!(inbox.has_room(1));
    assert!(inbox.room(1).is_some());
}

#[test]
fn bodies_in_hand_have_a_bound_together() {
    let inbox = Inbox::new(1_000, 1_000);
    let first = inbox.room(1_025).expect("room");
    let left = MEMORY_BYTES - 2 * 1_024;
    assert!(inbox.has_room(left) && !inbox.has_room(left + 1));
    assert!(inbox.room(left + 1).is_none());
    let second = inbox.room(left).expect("room");
    assert!(inbox.room(1).is_none(), "all is taken");
    drop(first);
    assert!(inbox.room(2 * 1_024).is_some());
    drop(second);
    assert!(inbox.room(MEMORY_BYTES).is_some());
    // One of the longest bodies has room.
    let large = Inbox::new(1, MEMORY_BYTES * 2);
    assert!(large.room(MEMORY_BYTES * 2).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_was_given_back_comes_again_after_a_pause_under_another_id() {
    let inbox = Inbox::new(10, 1_000);
    let ending = put(&inbox, "1");
    let first = fetch(&inbox, 10).await;
    inbox.take_back(&[first[0].id]);
    let early = timeout(PAUSE / 2, inbox.next(10)).await;
    assert!(early.is_err(), "{early:?}");
    let again = fetch(&inbox, 10).await;
    assert_ne!(again[0].id, first[0].id);
    assert_eq!(again[0].coordinates, first[0].coordinates);
    inbox.settle(&[Acknowledgement::new(first[0].id, Fate::Applied)]);
    inbox.settle(&[Acknowledgement::new(again[0].id, Fate::Replayed)]);
    assert_eq!(ending.await, Ok(Ending::Settled(Fate::Replayed)));
}

#[tokio::test]
async fn a_close_ends_every_request_wherever_its_message_is() {
    let inbox = Inbox::new(10, 1_000);
    let out = put(&inbox, "1");
    let given_back = put(&inbox, "2");
    let deliveries = fetch(&inbox, 10).await;
    inbox.take_back(&[deliveries[1].id]);
    let waiting = put(&inbox, "3");
    let room = inbox.room(1).expect("room");
    inbox.close();
    for ending in [out, given_back, waiting] {
        assert_eq!(ending.await, Ok(Ending::Closed));
    }
    assert!(inbox.put(message("4"), room).is_none());
    assert!(inbox.next(10).await.is_none());
}
