use axum::http::HeaderMap;
use tokio::time::timeout;

use super::*;
use crate::scheme::Scheme;

fn message(body: &'static str) -> Message {
    let headers = HeaderMap::new();
    Message::new(&Scheme::None, "/", &headers, body.into(), 1_000)
}

fn room(inbox: &Inbox, bytes: usize) -> Option<Room> {
    let mut memory = inbox.memory();
    memory.grow(bytes).then(|| inbox.room(memory))?
}

fn put(inbox: &Inbox, body: &'static str) -> oneshot::Receiver<Ending> {
    let room = room(inbox, body.len()).expect("room");
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
    assert!(room(&inbox, 1).is_none(), "it is still in hand");
    assert!(!inbox.has_room(1));
    let deliveries = fetch(&inbox, 10).await;
    assert!(room(&inbox, 1).is_none(), "it is still worked on");
    inbox.settle(&[Acknowledgement::new(deliveries[0].id, Fate::Applied)]);
    assert!(inbox.has_room(1));
    assert!(room(&inbox, 1).is_some());
}

#[test]
fn bodies_take_memory_as_they_arrive_up_to_a_bound_of_their_own() {
    let inbox = Inbox::new(1_000, 1_000);
    let mut first = inbox.memory();
    for arrived in [0, 1, 1_025, 1_025] {
        assert!(first.grow(arrived), "{arrived}");
    }
    let left = MEMORY_BYTES - 2 * 1_024;
    assert!(inbox.has_room(left) && !inbox.has_room(left + 1));
    let mut second = inbox.memory();
    assert!(!second.grow(left + 1));
    assert!(second.grow(left));
    assert!(!first.grow(2_049), "all is taken");
    assert!(first.grow(2_048), "it has that");
    let first = inbox.room(first).expect("a place");
    assert!(!second.grow(left + 1), "it goes with the request in hand");
    drop(first);
    assert!(second.grow(left + 2_048));
    // One of the longest bodies has room.
    let large = Inbox::new(1, MEMORY_BYTES * 2);
    assert!(large.memory().grow(MEMORY_BYTES * 2));
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
    let room = room(&inbox, 1).expect("room");
    inbox.close();
    for ending in [out, given_back, waiting] {
        assert_eq!(ending.await, Ok(Ending::Closed));
    }
    assert!(inbox.put(message("4"), room).is_none());
    assert!(inbox.next(10).await.is_none());
}
