//! Every case of the store port with its law. The other ports' are in `ports`.
//!
//! A case that is written but not listed here is found by the test of this module.

mod expand;
mod named;
mod ports;

/// Hands every case of the store port to the macro `$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_store_law {
    ($expand:ident $($port:ident)?) => {
        $crate::$expand! { $($port)?
            attempts {
                LawId::AttemptsCapped => the_last_failed_attempt_is_dead;
                LawId::AttemptsCapped => a_cap_of_one_is_dead_after_one_failure;
                LawId::AttemptsCapped => a_lower_cap_is_seen_by_the_next_claim;
                LawId::AttemptsCapped => vanished_claims_are_capped;
                LawId::AttemptsCapped => vanished_reruns_end_in_doubt;
                LawId::AttemptsCapped => vanished_keyed_effects_end_in_doubt;
                LawId::AttemptsCapped => an_unsure_last_attempt_ends_in_doubt;
                LawId::AttemptsCapped => a_sure_last_attempt_of_a_started_effect_is_dead;
                LawId::AttemptsCapped => a_sure_last_attempt_after_an_unsure_one_ends_in_doubt;
                LawId::AttemptsCapped => vanished_attempts_are_no_failed_ones;
                LawId::AttemptsCapped => a_dead_operation_stays_dead;
                LawId::AttemptsCapped => a_failure_for_good_is_dead_at_once;
                LawId::AttemptsCapped => the_last_error_is_kept_as_it_is;
                LawId::BusyIsNoAttempt => a_busy_answer_is_no_attempt;
                LawId::BusyIsNoAttempt => a_resumed_claim_is_no_attempt;
                LawId::BusyIsNoAttempt => work_given_back_is_no_attempt;
                LawId::BusyIsNoAttempt => work_given_back_twice_is_given_back_once;
            }
            audit {
                LawId::AuditedOnce => an_order_leaves_one_entry;
                LawId::AuditedOnce => an_order_without_a_note_leaves_none;
                LawId::AuditedOnce => a_refused_order_leaves_none;
                LawId::AuditedOnce => a_dropped_message_leaves_one_entry;
                LawId::AuditedOnce => a_drop_of_nothing_leaves_none;
                LawId::AuditedOnce => orders_of_a_batch_are_entered_in_their_order;
                LawId::AuditedOnce => entries_outlive_their_records;
                LawId::AuditedOnce => an_entry_is_kept_whole;
                LawId::AuditedOnce => orders_at_once_are_entered_as_they_are_carried_out;
                LawId::ListComplete => pages_of_entries_are_complete;
                LawId::ListComplete => paging_goes_on_while_entries_arrive;
                LawId::ListComplete => entries_are_selected_by_scope;
                LawId::ListComplete => a_foreign_cursor_of_the_trail_is_refused;
            }
            batch {
                LawId::BatchOrder => an_empty_batch_is_answered_empty;
                LawId::BatchOrder => a_batch_of_1000_is_answered_in_order;
                LawId::BatchOrder => a_mixed_batch_is_answered_in_order;
                LawId::BatchOrder => one_fenced_settlement_fences_itself_alone;
                LawId::BatchOrder => one_lost_renewal_is_lost_alone;
                LawId::BatchOrder => a_mixed_read_is_answered_in_order;
                LawId::BatchOrder => mixed_orders_are_answered_in_order;
                LawId::BatchRepeats => a_key_twice_in_a_batch_is_granted_once;
                LawId::BatchRepeats => a_request_twice_in_a_batch_is_resumed;
                LawId::BatchRepeats => a_reused_key_in_a_batch_conflicts;
                LawId::BatchRepeats => an_entity_twice_in_a_batch_is_busy;
                LawId::BatchRepeats => a_completion_twice_in_a_batch_is_harmless;
                LawId::BatchRepeats => steps_of_one_claim_in_a_batch_follow_each_other;
                LawId::BatchRepeats => settlements_of_one_entity_in_a_batch_add_up;
            }
            claim {
                LawId::OneClaim => a_fresh_key_is_granted_as_the_first_attempt;
                LawId::DoubtParked => a_marked_claim_is_started_at_once;
                LawId::OneClaim => a_claimed_key_is_busy_until_the_lease_ends;
                LawId::OneClaim => a_started_key_is_busy_until_the_lease_ends;
                LawId::OneClaim => of_64_claimants_at_once_exactly_one_is_granted;
                LawId::Takeover => of_16_takers_at_once_exactly_one_takes_over;
                LawId::ReleasedAgain => of_16_claimants_of_a_released_key_one_is_granted;
                LawId::OneClaim => racing_batches_grant_each_key_once;
                LawId::TokensRise => tokens_rise_from_claim_to_claim_and_key_to_key;
                LawId::TokensRise => tokens_rise_over_the_removal_of_a_record;
                LawId::TokensRise => tokens_of_claims_at_once_differ;
                LawId::ClaimResumed => asking_again_resumes_the_same_claim;
                LawId::ClaimResumed => asking_again_resumes_a_started_claim;
                LawId::ClaimResumed => asking_again_after_the_lease_resumes_if_nobody_took_over;
                LawId::ClaimResumed => asking_again_after_a_takeover_is_busy;
                LawId::ClaimResumed => a_claim_that_was_taken_over_is_never_resumed;
                LawId::ClaimResumed => a_resumption_keeps_a_renewed_lease;
                LawId::ClaimResumed => asking_again_after_completion_replays;
                LawId::ClaimResumed => asking_32_times_at_once_is_one_claim;
                LawId::Takeover => a_claim_is_not_taken_over_within_its_lease;
                LawId::Takeover => a_claim_is_taken_over_after_its_lease;
                LawId::Takeover => a_claim_without_a_lease_is_taken_over_at_once;
                LawId::Takeover => a_takeover_gets_a_lease_of_its_own;
                LawId::ReleasedAgain => a_released_key_is_granted_again;
                LawId::ReleasedAgain => a_released_key_is_busy_until_its_backoff_ends;
                LawId::ReleasedAgain => releasing_twice_is_harmless;
            }
            doubt {
                LawId::DoubtParked => a_vanished_park_is_in_doubt;
                LawId::DoubtParked => a_park_that_started_later_is_in_doubt;
                LawId::DoubtParked => the_stored_recovery_decides;
                LawId::DoubtParked => a_second_start_changes_the_recovery;
                LawId::DoubtParked => a_doubt_stays_a_doubt;
                LawId::DoubtParked => an_unsure_release_of_a_park_is_in_doubt;
                LawId::DoubtParked => a_sure_release_of_a_park_is_attempted_again;
                LawId::DoubtParked => an_unsure_release_before_the_start_is_no_doubt;
                LawId::DoubtParked => work_given_back_after_a_start_is_no_doubt;
                LawId::DoubtParked => a_vanished_claim_before_the_start_is_no_doubt;
                LawId::DoubtParked => a_failed_park_is_dead;
                LawId::LateEvidence => a_late_completion_resolves_the_doubt;
                LawId::LateEvidence => a_late_completion_resolves_every_kind_of_doubt;
                LawId::LateEvidence => a_late_decisive_failure_resolves_the_doubt;
                LawId::LateEvidence => a_completion_of_another_claim_does_not_resolve_the_doubt;
                LawId::LateEvidence => a_doubt_belongs_to_the_last_claim;
                LawId::DoubtParked => a_doubt_reported_twice_is_harmless;
                LawId::RepeatsCounted => a_vanished_rerun_is_a_possible_repeat;
                LawId::RepeatsCounted => possible_repeats_are_counted;
                LawId::RepeatsCounted => a_possible_repeat_is_remembered_over_a_sure_failure;
                LawId::RepeatsCounted => a_sure_release_of_a_rerun_is_no_possible_repeat;
                LawId::RepeatsCounted => a_resumed_repeat_is_counted_once;
                LawId::ProviderWindow => a_vanished_keyed_effect_is_rerun_inside_the_window;
                LawId::ProviderWindow => a_vanished_keyed_effect_is_in_doubt_past_the_window;
                LawId::ProviderWindow => the_provider_window_begins_with_the_first_start;
                LawId::ProviderWindow => a_sure_release_does_not_renew_the_provider_window;
                LawId::ProviderWindow => an_unsure_keyed_release_is_attempted_again;
                LawId::ProviderWindow => an_unsure_keyed_release_is_in_doubt_past_the_window;
                LawId::DecisiveOnly => a_decisive_failure_after_a_doubt_is_dead;
                LawId::DecisiveOnly => a_failure_after_a_doubt_is_in_doubt;
                LawId::DecisiveOnly => a_failure_after_a_takeover_is_in_doubt;
                LawId::DoubtParked => a_doubt_says_since_when;
            }
            fencing {
                LawId::StaleClaimFenced => a_superseded_start_is_fenced;
                LawId::StaleClaimFenced => a_superseded_completion_is_fenced;
                LawId::StaleClaimFenced => a_superseded_release_is_fenced;
                LawId::StaleClaimFenced => a_superseded_failure_is_fenced;
                LawId::StaleClaimFenced => a_superseded_started_claim_is_fenced;
                LawId::StaleClaimFenced => every_step_on_an_absent_key_is_fenced;
                LawId::StaleClaimFenced => every_step_of_a_stranger_is_fenced;
                LawId::StaleClaimFenced => a_claim_id_counts_for_its_own_key_only;
                LawId::StaleClaimFenced => a_released_claim_cannot_complete;
                LawId::StaleClaimFenced => a_completed_claim_cannot_release_or_fail;
                LawId::StaleClaimFenced => a_dead_claim_cannot_start_or_complete;
                LawId::StaleClaimFenced => a_requeued_claim_cannot_complete;
                LawId::StaleClaimFenced => a_completion_racing_a_takeover_has_one_winner;
            }
            fingerprint {
                LawId::Reuse => a_claimed_key_conflicts;
                LawId::Reuse => a_started_key_conflicts;
                LawId::Reuse => a_released_key_conflicts;
                LawId::Reuse => a_completed_key_conflicts;
                LawId::Reuse => a_parked_key_conflicts;
                LawId::Reuse => a_vanished_key_conflicts;
                LawId::Reuse => the_same_claim_with_another_request_conflicts;
                LawId::Reuse => a_conflict_names_the_duplicate;
                LawId::Reuse => the_same_request_replays;
                LawId::Reuse => a_forgotten_key_conflicts_with_nothing;
                LawId::Incomparable => another_scheme_is_no_conflict;
                LawId::Incomparable => no_fingerprint_is_no_conflict;
                LawId::Reuse => every_byte_of_a_fingerprint_counts;
            }
            identity {
                LawId::Identity => keys_differ_by_case;
                LawId::Identity => keys_differ_by_accent;
                LawId::Identity => keys_differ_by_unicode_form;
                LawId::Identity => keys_differ_by_white_space;
                LawId::Identity => keys_differ_by_control_characters;
                LawId::Identity => keys_differ_by_type;
                LawId::Identity => keys_differ_by_the_last_digit;
                LawId::Identity => keys_of_equal_value_are_one;
                LawId::Identity => joined_keys_differ_by_their_parts;
                LawId::Identity => long_keys_differ_at_their_end;
                LawId::Identity => keys_are_never_patterns_or_code;
                LawId::Identity => keys_differ_by_emoji;
                LawId::Identity => tenants_never_meet;
                LawId::Identity => operation_names_never_meet;
                LawId::Identity => parts_never_run_into_each_other;
                LawId::Identity => long_scopes_differ_at_their_end;
                LawId::Identity => an_operation_comes_back_as_it_went_in;
            }
            lease {
                LawId::LeaseOwned => a_renewed_claim_is_not_taken_over;
                LawId::LeaseOwned => a_renewal_answers_the_end_of_the_lease;
                LawId::LeaseOwned => a_renewal_revives_a_lease_that_nobody_took;
                LawId::LeaseOwned => a_renewed_lease_ends_too;
                LawId::LeaseOwned => a_renewal_after_a_takeover_is_lost;
                LawId::LeaseOwned => a_renewal_of_a_finished_operation_is_lost;
                LawId::LeaseOwned => a_renewal_of_a_released_claim_is_lost;
                LawId::LeaseOwned => a_renewal_of_a_doubt_is_lost;
                LawId::LeaseOwned => a_renewal_of_an_absent_key_is_lost;
                LawId::LeaseOwned => a_renewal_keeps_a_start_and_its_recovery;
                LawId::LeaseOwned => a_renewal_is_no_attempt;
            }
            list {
                LawId::ListComplete => pages_of_one_are_complete;
                LawId::ListComplete => pages_of_seven_are_complete;
                LawId::ListComplete => pages_that_divide_the_whole_are_complete;
                LawId::ListComplete => a_page_of_1000_is_complete;
                LawId::ListComplete => an_empty_store_lists_nothing;
                LawId::ListComplete => records_are_selected_by_state;
                LawId::ListComplete => records_are_selected_by_scope;
                LawId::ListComplete => records_are_selected_by_possible_repeats;
                LawId::ListComplete => a_list_shows_records_without_outcomes;
                LawId::ListComplete => forgotten_records_are_not_listed;
                LawId::ListComplete => a_foreign_cursor_is_refused;
                LawId::ListComplete => paging_goes_on_while_records_arrive;
                LawId::ListComplete => pages_of_parked_messages_are_complete;
                LawId::ListComplete => counts_agree_with_the_lists;
                LawId::ListComplete => refused_claims_are_not_counted;
                LawId::ListComplete => the_expired_and_the_audit_trail_are_counted_apart;
                LawId::ListComplete => an_estimate_is_near_the_count;
            }
            members {
                LawId::MembersKept => a_claim_keeps_its_members;
                LawId::MembersKept => members_of_any_length_are_kept;
                LawId::MembersKept => members_stay_whatever_happens;
                LawId::MembersKept => a_conflict_hands_out_the_first_members;
                LawId::MembersKept => absent_members_stay_absent;
                LawId::MembersKept => members_alone_are_not_kept;
                LawId::MembersKept => a_batch_keeps_the_members_of_each;
                LawId::MembersKept => members_are_forgotten_with_their_record;
            }
            operate {
                LawId::Resolved => every_order_about_an_absent_key_is_refused;
                LawId::Resolved => a_doubt_resolved_as_applied_is_completed;
                LawId::Resolved => a_verdict_brings_its_own_window;
                LawId::Resolved => a_doubt_resolved_as_not_applied_is_attempted_again;
                LawId::Resolved => not_applied_is_refused_before_it_is_quiet;
                LawId::Resolved => evidence_from_before_it_was_quiet_is_refused;
                LawId::Resolved => an_abandoned_doubt_is_dead;
                LawId::Resolved => a_verdict_is_final;
                LawId::Resolved => a_verdict_on_anything_else_is_refused;
                LawId::AttemptsCapped => a_requeued_operation_is_attempted_anew;
                LawId::AttemptsCapped => requeuing_anything_else_is_refused;
                LawId::AttemptsCapped => a_requeued_operation_keeps_its_possible_repeats;
                LawId::ProviderWindow => a_retried_doubt_is_attempted_inside_its_window_only;
                LawId::RepeatsCounted => a_retried_rerun_counts_its_possible_repeat;
                LawId::Resolved => retrying_what_may_not_run_again_is_refused;
                LawId::UnresolvedKept => a_forgotten_operation_is_new;
                LawId::UnresolvedKept => forgetting_what_is_unresolved_is_refused;
                LawId::UnresolvedKept => holding_changes_nothing_else;
                LawId::UnresolvedKept => a_hold_outlives_the_completion;
                LawId::ForgottenInTime => an_order_about_a_forgotten_record_is_refused;
            }
            outcome {
                LawId::OutcomeOnce => completing_twice_keeps_the_first_outcome;
                LawId::OutcomeOnce => completing_twice_keeps_the_first_window;
                LawId::OutcomeOnce => completing_16_times_at_once_leaves_one_outcome;
                LawId::OutcomeOnce => a_started_effect_completes;
                LawId::OutcomeOnce => a_completion_clears_the_last_error;
                LawId::SameOutcome => a_duplicate_gets_the_outcome;
                LawId::SameOutcome => duplicates_at_once_get_the_same_outcome;
                LawId::SameOutcome => an_empty_outcome_is_replayed;
                LawId::SameOutcome => every_byte_value_is_replayed;
                LawId::SameOutcome => an_outcome_of_one_mebibyte_is_replayed;
                LawId::SameOutcome => a_too_large_outcome_is_replayed_as_such;
                LawId::SameOutcome => the_codec_is_kept;
                LawId::SameOutcome => an_outcome_that_nobody_wants_is_left_out;
                LawId::SameOutcome => a_replay_names_the_duplicate;
                LawId::SameOutcome => a_replay_to_its_own_claim_says_so;
                LawId::OutcomeOnce => the_first_transport_id_is_kept;
                LawId::SameOutcome => outcomes_of_many_keys_stay_apart;
            }
            parked {
                LawId::ParkedOnce => a_message_is_parked_once;
                LawId::ParkedOnce => a_parked_message_is_kept_whole;
                LawId::ParkedOnce => a_parked_message_may_lack_key_transport_and_payload;
                LawId::ParkedOnce => an_empty_transport_id_is_kept;
                LawId::ParkedOnce => a_large_payload_is_kept;
                LawId::ParkedOnce => the_store_stamps_a_parked_message_once;
                LawId::ParkedOnce => a_redelivered_bad_message_is_one_entry;
                LawId::ParkedOnce => two_bad_messages_are_two_entries;
                LawId::ParkedOnce => a_dead_operation_has_one_dead_letter;
                LawId::ParkedOnce => a_dropped_message_is_gone;
                LawId::ParkedOnce => parks_and_drops_are_answered_in_order;
                LawId::ParkedOnce => a_message_parked_32_times_at_once_is_new_once;
                LawId::ParkedOnce => a_parked_message_is_never_swept;
                LawId::ParkedOnce => parked_messages_are_selected_by_reason_and_scope;
            }
            past {
                LawId::PastKept => an_attempt_that_completes_leaves_no_past;
                LawId::PastKept => a_release_is_remembered;
                LawId::PastKept => an_unsure_release_is_remembered_as_such;
                LawId::PastKept => work_given_back_is_remembered;
                LawId::PastKept => a_failure_is_remembered;
                LawId::PastKept => a_vanished_claim_ended_with_its_lease;
                LawId::PastKept => a_vanished_claim_at_its_cap_is_remembered;
                LawId::PastKept => a_vanished_park_is_remembered_once;
                LawId::PastKept => a_vanished_park_that_a_sweep_finds_is_remembered;
                LawId::PastKept => past_attempts_are_in_their_order;
                LawId::PastKept => the_latest_sixteen_are_kept;
                LawId::PastKept => of_two_given_back_in_a_row_the_earlier_goes_first;
                LawId::PastKept => a_long_error_is_remembered_by_its_beginning;
                LawId::PastKept => a_repeated_report_is_remembered_once;
                LawId::PastKept => a_record_says_when_its_claim_was_granted;
                LawId::PastKept => the_past_outlives_orders_and_late_evidence;
                LawId::PastKept => a_new_record_has_no_past;
            }
            release {
                LawId::ReleaseOrdered => a_released_lease_is_taken_over_at_once;
                LawId::ReleaseOrdered => a_released_backoff_ends_at_once;
                LawId::ReleaseOrdered => a_released_park_is_in_doubt;
                LawId::ReleaseOrdered => a_claimant_goes_on_until_somebody_claims;
                LawId::ReleaseOrdered => a_renewal_after_the_order_extends_the_lease;
                LawId::ReleaseOrdered => a_claimant_is_fenced_once_somebody_claimed;
                LawId::ReleaseOrdered => a_release_order_changes_nothing_else;
                LawId::ReleaseOrdered => releasing_twice_changes_nothing;
                LawId::ReleaseOrdered => a_released_claim_frees_its_entity;
                LawId::ReleaseOrdered => a_release_order_leaves_the_entity_of_another_alone;
                LawId::ReleaseOrdered => releasing_what_nobody_waits_for_is_refused;
                LawId::ReleaseOrdered => of_16_claimants_after_the_order_one_is_granted;
            }
            selection {
                LawId::ListComplete => records_are_selected_by_tenant;
                LawId::ListComplete => records_are_selected_by_operation;
                LawId::ListComplete => records_are_selected_by_tenant_and_operation;
                LawId::ListComplete => a_list_of_nobodys_records_is_empty;
                LawId::ListComplete => records_of_a_tenant_are_selected_by_state;
                LawId::ListComplete => paging_of_a_tenant_goes_on_while_records_arrive;
                LawId::ListComplete => messages_are_selected_by_tenant;
                LawId::ListComplete => messages_are_selected_by_operation;
                LawId::ListComplete => messages_are_selected_by_tenant_and_operation;
                LawId::ListComplete => a_list_of_nobodys_messages_is_empty;
                LawId::ListComplete => messages_of_a_tenant_are_selected_by_reason;
                LawId::ListComplete => entries_are_selected_by_tenant;
                LawId::ListComplete => entries_are_selected_by_operation;
                LawId::ListComplete => entries_are_selected_by_tenant_and_operation;
                LawId::ListComplete => a_list_of_nobodys_entries_is_empty;
            }
            version {
                LawId::VersionGate => rising_versions_are_granted;
                LawId::VersionGate => an_equal_version_is_stale;
                LawId::VersionGate => a_lower_version_is_stale;
                LawId::VersionGate => a_version_that_was_not_applied_makes_nothing_stale;
                LawId::VersionGate => an_overtaken_version_is_stale;
                LawId::VersionGate => a_duplicate_of_an_applied_version_replays;
                LawId::VersionGate => a_version_outlives_its_record;
                LawId::VersionGate => a_late_completion_does_not_lower_the_version;
                LawId::VersionGate => a_doubt_resolved_as_applied_raises_the_version;
                LawId::VersionGate => versions_use_all_64_bits;
                LawId::VersionGate => entities_are_told_apart;
                LawId::VersionGate => an_entity_belongs_to_its_scope;
                LawId::ListComplete => entities_are_counted_once_each_and_for_good;
                LawId::OneClaimPerEntity => an_entity_is_busy_while_one_claim_works_on_it;
                LawId::OneClaimPerEntity => a_settled_claim_frees_its_entity;
                LawId::OneClaimPerEntity => a_doubt_frees_its_entity;
                LawId::OneClaimPerEntity => an_ended_lease_frees_its_entity;
                LawId::OneClaimPerEntity => a_renewed_lease_holds_its_entity;
                LawId::OneClaimPerEntity => a_claim_that_lost_its_entity_is_not_renewed;
                LawId::OneClaimPerEntity => a_claim_that_lost_its_entity_says_how_it_ended;
                LawId::OneClaimPerEntity => a_takeover_takes_the_entity_along;
                LawId::OneClaimPerEntity => of_16_versions_at_once_one_is_granted;
            }
            window {
                LawId::KeptInWindow => a_finished_key_replays_inside_its_window;
                LawId::KeptInWindow => a_dead_key_stays_parked_inside_its_window;
                LawId::KeptInWindow => the_window_begins_with_the_completion;
                LawId::ForgottenInTime => a_replay_does_not_prolong_the_window;
                LawId::KeptInWindow => each_record_has_its_own_window;
                LawId::ForgottenInTime => a_finished_key_is_forgotten_without_a_sweep;
                LawId::ForgottenInTime => a_finished_key_is_forgotten_after_a_sweep;
                LawId::ForgottenInTime => a_dead_key_is_forgotten_too;
                LawId::ForgottenInTime => a_forgotten_claim_is_fenced;
                LawId::ForgottenInTime => evidence_wins_while_it_is_there;
                LawId::AgeGate => an_old_message_without_a_record_is_too_old;
                LawId::AgeGate => the_age_gate_closes_a_margin_early;
                LawId::AgeGate => a_birth_ahead_or_unknown_is_new;
                LawId::AgeGate => an_old_message_with_a_record_is_a_duplicate;
                LawId::AgeGate => a_forgotten_message_is_too_old;
                LawId::AgeGate => a_released_message_never_grows_too_old;
                LawId::UnresolvedKept => unresolved_records_are_never_swept;
                LawId::UnresolvedKept => a_held_record_outlives_its_window;
                LawId::KeptInWindow => an_extended_record_outlives_its_first_window;
                LawId::KeptInWindow => only_a_finished_record_is_extended;
                LawId::ForgottenInTime => a_sweep_is_bounded;
                LawId::UnresolvedKept => a_sweep_finds_vanished_parks;
            }
        }
    };
}

#[cfg(test)]
mod tests;
