//! Retries after a lost race: how many there are, and the pause before each.

use std::time::Duration;

/// Waits a little longer each time, and never as long as other processes do.
pub(crate) async fn pause(tries: u32) {
    let mut random = [0; 2];
    // Without entropy all processes wait alike, which is slower and nothing else.
    let _ = getrandom::fill(&mut random);
    let most = 4_u32.saturating_pow(tries.min(4));
    let millis = u32::from(u16::from_le_bytes(random)) % most.max(1) + 1;
    tokio::time::sleep(Duration::from_millis(millis.into())).await;
}

/// Rounds after which an open item has failed.
pub(crate) const ROUNDS: u32 = 32;
/// Round from which on a caller waits a little before it asks again.
pub(crate) const PATIENT: u32 = 4;
