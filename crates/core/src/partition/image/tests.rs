use bytes::Bytes;

use super::super::entry::digest;
use super::*;
use crate::claim::{Duplicate, Start};
use crate::fingerprint::Fingerprint;
use crate::ids::ClaimId;
use crate::key::{Key, Scope};
use crate::record::Recovery;

const DAY: u64 = 86_400_000;

fn image() -> Image {
    Image::new(Window::new(Duration::from_secs(7 * 86_400)))
}

fn request(key: &str, transport: &str, digest: u8) -> (OpId, ClaimRequest) {
    let scope = Scope::new("", "payments").expect("a scope");
    let key = Key::parse(key).expect("a key");
    let mut request = ClaimRequest::new(scope, key, ClaimId::from_u128(7));
    request.window = Window::new(Duration::from_secs(7 * 86_400));
    request.transport = Some(Bytes::copy_from_slice(transport.as_bytes()));
    request.fingerprint = Some(Fingerprint {
        scheme: 1,
        digest: [digest; 16],
    });
    (request.operation.id(), request)
}

fn commit(image: &mut Image, at: u64, (id, request): &(OpId, ClaimRequest)) {
    image.insert(Timestamp::from_millis(at), [Entry::of(*id, request)]);
}

fn admit(
    image: &Image,
    (id, request): &(OpId, ClaimRequest),
    now: u64,
) -> Result<Grant, Admission> {
    match image.admit(*id, request, 3, Timestamp::from_millis(now)) {
        Standing::Free(grant) => Ok(grant),
        Standing::Ours(admission) => Err(*admission),
        Standing::Gone => panic!("an image knows of no deliveries"),
    }
}

#[test]
fn what_nobody_committed_is_granted() {
    let grant = admit(&image(), &request("a", "t1", 1), DAY);
    assert_eq!(
        grant.expect("nobody did"),
        Grant::first(FencingToken::new(3))
    );
}

/// The image decides without a record, and yet as every store does.
#[test]
fn what_is_not_known_is_decided_as_without_a_record() {
    let window = Duration::from_secs(7 * 86_400);
    for start in [Start::Unmarked, Start::Marked(Recovery::Park)] {
        for age in [None, Some(Duration::ZERO), Some(window), Some(window * 2)] {
            let mut asked = request("a", "t1", 1);
            let now = Timestamp::from_millis(100 * DAY);
            asked.1.birth = age.map(|age| now.minus(age));
            asked.1.start = start;
            let decided = decide::claim(None, None, &asked.1, now, FencingToken::new(3)).answer;
            match (admit(&image(), &asked, 100 * DAY), decided) {
                (Ok(grant), Admission::Granted(claim)) => assert_eq!(grant, claim.grant()),
                (Err(Admission::TooOld), Admission::TooOld) => {}
                other => panic!("{age:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_claim_that_nobody_stores_is_the_one_that_is_granted() {
    let (_, request) = request("a", "t1", 1);
    let (now, token) = (Timestamp::from_millis(DAY), FencingToken::new(3));
    let decided = decide::claim(None, None, &request, now, token).answer;
    let Admission::Granted(claim) = decided else {
        panic!("{decided:?}");
    };
    assert_eq!(
        format!("{:?}", claim.grant().claim(&request, now)),
        format!("{claim:?}")
    );
}

#[test]
fn what_was_committed_is_a_replay_and_its_kind_is_told() {
    let mut image = image();
    commit(&mut image, DAY, &request("a", "t1", 1));
    for (transport, expected) in [("t1", Duplicate::Redelivery), ("t2", Duplicate::Republish)] {
        let admission = admit(&image, &request("a", transport, 1), DAY + 1);
        let told = match admission {
            Err(Admission::Replay { duplicate, .. }) => duplicate,
            other => panic!("{other:?}"),
        };
        assert_eq!(told, expected);
    }
    assert!(admit(&image, &request("b", "t1", 1), DAY).is_ok());
}

#[test]
fn another_request_under_the_same_key_is_a_conflict() {
    let mut image = image();
    commit(&mut image, DAY, &request("a", "t1", 1));
    for digest in [0, 2] {
        let admission = admit(&image, &request("a", "t2", digest), DAY + 1);
        assert!(
            matches!(admission, Err(Admission::Conflict { .. })),
            "{digest}: {admission:?}"
        );
    }
}

#[test]
fn a_request_without_a_fingerprint_conflicts_with_nothing() {
    let mut image = image();
    commit(&mut image, DAY, &request("a", "t1", 1));
    let (id, mut request) = request("a", "t1", 1);
    request.fingerprint = None;
    let admission = admit(&image, &(id, request), DAY);
    assert!(
        matches!(admission, Err(Admission::Replay { .. })),
        "{admission:?}"
    );
}

#[test]
fn an_operation_is_forgotten_after_its_window_and_the_age_gate_takes_over() {
    let mut image = image();
    let mut old = request("a", "t1", 1);
    commit(&mut image, DAY, &old);
    let still = DAY + 7 * DAY - 1;
    image.sweep(Timestamp::from_millis(still));
    assert!(matches!(
        admit(&image, &old, still),
        Err(Admission::Replay { .. })
    ));
    let entry = Entry::of(old.0, &old.1);
    assert!(image.is_committed(&entry, None, Timestamp::from_millis(still)));
    let later = DAY + 8 * DAY;
    image.sweep(Timestamp::from_millis(later));
    assert_eq!(image.len(), 0);
    old.1.birth = Some(Timestamp::from_millis(DAY));
    assert!(matches!(admit(&image, &old, later), Err(Admission::TooOld)));
}

#[test]
fn what_is_past_its_window_and_not_swept_yet_counts_as_forgotten() {
    let mut image = image();
    let old = request("a", "t1", 1);
    commit(&mut image, DAY, &old);
    let later = Timestamp::from_millis(9 * DAY);
    let grant = admit(&image, &old, 9 * DAY).expect("it is forgotten");
    assert!(grant.formerly_expired);
    // The later commit is another one, and is not taken for the old.
    assert!(!image.is_committed(&Entry::of(old.0, &old.1), None, later));
}

#[test]
fn a_commit_whose_answer_was_lost_is_known_past_its_window() {
    let mut image = image();
    let request = request("a", "t1", 1);
    commit(&mut image, DAY, &request);
    let entry = Entry::of(request.0, &request.1);
    let (tried, later) = (Timestamp::from_millis(DAY), Timestamp::from_millis(9 * DAY));
    assert!(!image.is_committed(&entry, None, later));
    assert!(image.is_committed(&entry, Some(tried), later));
    let end = image.window.forgotten_at(tried);
    assert!(!image.is_committed(&entry, None, end));
    assert!(image.is_committed(&entry, None, end.minus(Duration::from_millis(1))));
    // Another commit of the same operation does not count.
    assert!(!image.is_committed(&entry, Some(tried.plus(Duration::from_millis(1))), later));
}

#[test]
fn what_is_committed_again_outlives_its_first_age() {
    let mut image = image();
    let request = request("a", "t1", 1);
    commit(&mut image, DAY, &request);
    commit(&mut image, 4 * DAY, &request);
    image.sweep(Timestamp::from_millis(9 * DAY));
    assert_eq!(image.len(), 1);
    image.sweep(Timestamp::from_millis(12 * DAY));
    assert_eq!(image.len(), 0);
}

#[test]
fn operations_share_no_id_by_accident() {
    let mut image = image();
    for number in 0..1_000 {
        commit(&mut image, DAY, &request(&format!("k{number}"), "t", 1));
    }
    assert_eq!(image.len(), 1_000);
}

/// The 64-bit ones of FNV-1a's own test vectors.
#[test]
fn transport_ids_have_the_digest_of_the_published_algorithm() {
    assert_eq!(digest(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(digest(b"a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(digest(b"foobar"), 0x8594_4171_f739_67e8);
}
