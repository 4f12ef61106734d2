//! Bugs on the way of a message: in the consumer and at its broker.

use super::{Bug, UNIT, WORLD, engine, kafka};
use crate::planted::build::Suite;

pub(super) const BUGS: &[Bug] = &[
    engine(
        "K02",
        "all",
        "acknowledges a dead message before its letter is confirmed",
        WORLD,
        &["consumer::dead_letters"],
    ),
    engine(
        "M01",
        "all",
        "settles before the effect",
        WORLD,
        &["consumer::"],
    )
    .and_in_the_model(&["T1", "T2", "T7"]),
    engine(
        "M04",
        "all",
        "acknowledges before the outcome is settled",
        WORLD,
        &["consumer::"],
    )
    .and_in_the_model(&["T1", "T2"]),
    engine(
        "M06",
        "all",
        "acknowledges what was fenced",
        WORLD,
        &["consumer::lease"],
    )
    .and_in_the_model(&["T1"]),
    engine(
        "M07",
        "all",
        "drops a message whose key is busy",
        WORLD,
        &["consumer::lease"],
    )
    .and_in_the_model(&["T1", "T2"]),
    engine(
        "M08",
        "keyed",
        "puts the attempt into the provider's key",
        WORLD,
        &["once::effects"],
    )
    .and_in_the_model(&["T1", "T2"]),
    engine(
        "M10",
        "park",
        "sends a parked effect without a started mark",
        WORLD,
        &["consumer::doubt"],
    )
    .and_in_the_model(&["T1", "T2", "T7"]),
    engine(
        "M15",
        "output",
        "takes a lost answer to a commit for a refusal",
        WORLD,
        &["consumer::"],
    )
    .and_in_the_model(&["T1", "T2", "T7"]),
    engine("M16", "all", "renews no lease", WORLD, &["consumer::lease"]).and(&["T2"]),
    engine(
        "M18",
        "all",
        "has no age gate",
        WORLD,
        &["consumer::quarantine"],
    )
    .and_in_the_model(&["T1", "T2"]),
    engine(
        "M20",
        "all",
        "counts a busy answer as an attempt",
        WORLD,
        &["consumer::retry::waiting_for_somebody_else_uses_up_no_attempts"],
    )
    .and(&["T2"]),
    engine(
        "M34",
        "all",
        "asks again for a claim under another id",
        WORLD,
        &["consumer::"],
    )
    .and(&["T2"]),
    engine(
        "M35",
        "all",
        "acknowledges a dead message without keeping it",
        WORLD,
        &["consumer::retry", "consumer::quarantine"],
    )
    .and(&["T7"]),
    engine(
        "M38",
        "all",
        "takes a panic for success",
        WORLD,
        &["consumer::retry"],
    )
    .and(&["T7"]),
    engine(
        "U01",
        "all",
        "acknowledges an unprotected message whose effect has failed",
        WORLD,
        &["consumer::open::an_effect_that_fails_unprotected_is_not_acknowledged_and_tried_again"],
    ),
    engine(
        "U02",
        "all",
        "runs unprotected what may have been claimed",
        WORLD,
        &["consumer::open::a_message_whose_claim_may_have_been_granted_waits_for_its_claim"],
    ),
    engine(
        "U03",
        "all",
        "lets everybody try a store that is away",
        UNIT,
        &["layer::outage"],
    ),
    engine(
        "U04",
        "all",
        "acknowledges what the store has not taken, when it fails open",
        WORLD,
        &["consumer::open::what_ended_under_its_claim_is_acknowledged_when_the_store_has_taken_it"],
    ),
    engine(
        "U05",
        "all",
        "counts what ran unprotected as applied",
        WORLD,
        &["consumer::open::while_the_store_is_away_effects_run_unprotected_and_are_counted_apart"],
    ),
    engine(
        "U06",
        "park",
        "lets an effect that parks its doubts fail open",
        WORLD,
        &["consumer::open::a_promise_that_rests_on_the_record_cannot_fail_open"],
    ),
    engine(
        "U07",
        "all",
        "tells the source nothing while it waits for the store",
        WORLD,
        &["consumer::outage::through_an_outage_the_source_is_held_back_and_kept_informed"],
    ),
    engine(
        "U08",
        "all",
        "runs unprotected what was claimed before",
        WORLD,
        &["consumer::open::what_was_claimed_before_waits_for_its_next_claim"],
    ),
    engine(
        "U09",
        "all",
        "takes what was asked before the store was away for what was not asked",
        WORLD,
        &["consumer::open::a_message_whose_claim_may_have_been_granted_waits_for_its_claim"],
    ),
    kafka(
        "K01",
        "all",
        "commits behind the newest record that is finished",
        &["rebalance::finished_prefixes_are_committed_as_time_passes"],
    ),
    kafka(
        "K03",
        "streamed",
        "leaves the offsets out of the transaction",
        &[
            "streamed::an_output_that_no_topic_takes_is_refused_and_the_rest_is_committed",
            "streamed::partitions_move_between_members_without_a_repeat",
        ],
    ),
    kafka(
        "K07",
        "streamed",
        "commits a batch that nobody waits for any more",
        &["turns::a_batch_is_committed_in_its_turn_while_somebody_waits_for_it"],
    ),
    kafka(
        "K08",
        "streamed",
        "commits what was written without a look at what was committed since",
        &["turns::a_batch_that_is_asked_for_again_meanwhile_is_committed_once"],
    ),
    kafka(
        "K09",
        "streamed",
        "keeps what was written behind a batch that is written again",
        &["turns::a_batch_is_written_behind_the_one_before_and_again_when_that_falls_back"],
    ),
    kafka(
        "K10",
        "streamed",
        "lets the next batch be written while keys of records are under way that are not those of operations",
        &[
            "turns::where_a_record_may_have_a_key_of_its_own_the_next_batch_is_written_once_this_one_is_there",
        ],
    ),
    engine(
        "P01",
        "all",
        "counts an attempt that did not reach its target",
        WORLD,
        &["consumer::target::a_target_that_is_away_costs_no_attempt_and_makes_no_dead_letter"],
    ),
    engine(
        "P02",
        "all",
        "tries a target that is away with more than one message at a time",
        WORLD,
        &["consumer::target::one_message_at_a_time_tries_a_target_that_is_away"],
    ),
    engine(
        "K04",
        "streamed",
        "grants a key that is being committed",
        WORLD,
        &["consumer::streamed::a_key_that_is_being_committed_is_not_granted_again"],
    ),
    engine(
        "K06",
        "streamed",
        "commits a batch before the one before it is committed",
        WORLD,
        &[
            "consumer::streamed::a_batch_is_committed_behind_the_one_before_however_often_that_fails",
            "consumer::streamed::behind_a_batch_that_fails_for_good_nothing_is_committed",
        ],
    ),
    Bug {
        name: "K05",
        class: "all",
        what: "acknowledges by the tags of a channel that is gone",
        within: &[AMQP],
        suite: Suite::Tests(AMQP, "amqp"),
        seen_by: &["cut::what_a_cut_takes_away_comes_again_under_other_ids"],
        tiers: &[],
    },
];

const AMQP: &str = "semel-broker-amqp";
