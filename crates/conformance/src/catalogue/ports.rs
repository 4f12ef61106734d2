//! The cases of the ports that only some stores have, each with its law.

/// Hands every case of durability to the macro `$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_durable_law {
    ($expand:ident $($port:ident)?) => {
        $crate::$expand! { $($port)?
            durable {
                LawId::Durable => a_durable_store_says_so;
                LawId::Durable => an_empty_store_reopens_empty;
                LawId::Durable => an_outcome_survives;
                LawId::Durable => every_kind_of_outcome_survives;
                LawId::Durable => a_thousand_records_survive;
                LawId::Durable => answers_given_at_once_survive;
                LawId::Durable => a_marked_claim_survives;
                LawId::Durable => a_start_survives;
                LawId::Durable => every_recovery_survives;
                LawId::Durable => a_marked_claim_is_resumed_after_reopening;
                LawId::Durable => attempts_survive;
                LawId::Durable => a_backoff_survives;
                LawId::Durable => a_death_survives;
                LawId::Durable => a_doubt_survives;
                LawId::Durable => a_swept_doubt_survives;
            }
            survival {
                LawId::Durable => possible_repeats_survive;
                LawId::Durable => a_fingerprint_survives;
                LawId::MembersKept => members_survive;
                LawId::Durable => a_version_survives;
                LawId::TokensRise => tokens_rise_over_reopening;
                LawId::TokensRise => tokens_of_unmarked_claims_do_not_come_back;
                LawId::Durable => a_hold_survives;
                LawId::Durable => orders_survive;
                LawId::Durable => a_window_goes_on_over_reopening;
                LawId::Durable => a_sweep_survives;
                LawId::Durable => unresolved_records_outlive_windows_over_reopening;
                LawId::Durable => parked_messages_survive;
                LawId::Durable => identities_survive;
                LawId::PastKept => the_past_survives;
                LawId::ReleaseOrdered => an_ended_wait_survives;
                LawId::AuditedOnce => the_audit_trail_survives;
            }
        }
    };
}

/// Hands every case of the checkpoint port to the macro `$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_checkpoint_law {
    ($expand:ident $($port:ident)?) => {
        $crate::$expand! { $($port)?
            checkpoint {
                LawId::MarkTogether => a_mark_is_absent_until_it_is_set;
                LawId::MarkTogether => a_batch_is_settled_with_its_mark;
                LawId::MarkTogether => a_batch_with_a_fenced_item_changes_nothing;
                LawId::MarkTogether => a_refused_batch_can_be_mended;
                LawId::MarkTogether => settling_together_twice_is_harmless;
                LawId::MarkTogether => a_batch_may_mix_steps;
                LawId::MarkTogether => a_refused_batch_leaves_the_version_gate_alone;
                LawId::MarkTogether => marks_are_told_apart_by_name;
                LawId::MarkTogether => a_mark_is_what_was_written_last;
                LawId::MarkTogether => checkpoints_at_once_do_not_disturb_each_other;
            }
            admission {
                LawId::AdmittedTogether => what_is_admitted_is_complete;
                LawId::AdmittedTogether => the_answers_are_written_before_they_are_given;
                LawId::AdmittedTogether => a_batch_of_duplicates_moves_the_mark;
                LawId::AdmittedTogether => a_key_twice_in_a_batch_is_admitted_once;
                LawId::AdmittedTogether => versions_in_a_batch_follow_each_other;
                LawId::AdmittedTogether => what_is_not_granted_changes_nothing;
                LawId::AdmittedTogether => what_was_attempted_before_is_admitted;
                LawId::AdmittedTogether => an_admitted_record_has_the_window_of_its_request;
                LawId::AdmittedTogether => claims_and_admissions_at_once_grant_each_key_once;
                LawId::AdmittedTogether => admissions_at_once_are_written_one_by_one;
            }
            rollback {
                LawId::AdmittedTogether => what_is_given_up_is_given_up_with_the_mark;
                LawId::AdmittedTogether => a_failed_write_changes_nothing;
                LawId::AdmittedTogether => tokens_rise_over_a_failed_write;
                LawId::AdmittedTogether => a_marked_request_is_refused;
            }
        }
    };
}

/// Hands every case of durable checkpoints to the macro `$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_durable_checkpoint_law {
    ($expand:ident $($port:ident)?) => {
        $crate::$expand! { $($port)?
            checkpoint {
                LawId::MarkTogether => a_checkpoint_survives;
                LawId::MarkTogether => a_refused_checkpoint_leaves_nothing;
            }
            admission {
                LawId::AdmittedTogether => an_admission_survives;
            }
            rollback {
                LawId::AdmittedTogether => a_failed_admission_leaves_nothing;
            }
        }
    };
}

/// Hands every case of the transactional port to the macro `$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_transactional_law {
    ($expand:ident $($port:ident)?) => {
        $crate::$expand! { $($port)?
            transactional {
                LawId::Together => an_effect_commits_with_its_record;
                LawId::Together => a_duplicate_is_not_applied_again;
                LawId::Together => all_statements_of_a_message_commit_together;
                LawId::Together => a_batch_is_applied_in_one_call;
                LawId::Together => a_key_twice_in_a_batch_is_applied_once;
                LawId::Together => a_message_applied_16_times_at_once_is_applied_once;
                LawId::Together => overlapping_batches_are_applied_once;
                LawId::Together => a_claimed_key_is_not_applied;
                LawId::Together => a_vanished_claim_is_taken_over;
                LawId::Together => conflicts_and_old_messages_run_nothing;
                LawId::Together => a_stale_version_runs_nothing;
                LawId::Together => values_are_never_code;
                LawId::Together => an_empty_batch_applies_nothing;
            }
            statements {
                LawId::StatementAlone => a_failing_message_fails_alone;
                LawId::StatementAlone => a_failing_statement_undoes_those_before_it;
                LawId::StatementAlone => a_failed_message_is_dead_or_tried_again_after_its_backoff;
                LawId::StatementAlone => a_message_that_keeps_failing_is_dead;
                LawId::Together => mistakes_are_found_before_work_begins;
            }
        }
    };
}

/// Hands every case of durable transactions to the macro `$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_durable_transactional_law {
    ($expand:ident $($port:ident)?) => {
        $crate::$expand! { $($port)?
            transactional {
                LawId::Together => an_applied_effect_survives;
            }
        }
    };
}

/// Hands every case of the transfer port to the macro `$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_transfer_law {
    ($expand:ident $($port:ident)?) => {
        $crate::$expand! { $($port)?
            export {
                LawId::Transferred => an_export_begins_with_the_token;
                LawId::Transferred => an_export_holds_everything;
                LawId::Transferred => pages_of_an_export_are_complete;
                LawId::Transferred => pages_of_an_export_are_bounded_by_what_they_hold;
                LawId::Transferred => a_foreign_cursor_of_an_export_is_refused;
                LawId::Transferred => what_is_forgotten_is_not_exported;
                LawId::Transferred => a_copy_exports_what_it_was_given;
            }
            transfer {
                LawId::Transferred => records_move_as_they_are;
                LawId::Transferred => outcomes_move;
                LawId::Transferred => a_reused_key_conflicts_at_the_copy;
                LawId::MembersKept => members_are_moved;
                LawId::Transferred => a_live_claim_moves;
                LawId::Transferred => a_backoff_moves;
                LawId::Transferred => the_dead_and_the_doubtful_move;
                LawId::Transferred => recoveries_move;
                LawId::Transferred => windows_and_holds_move;
                LawId::Transferred => the_age_gate_is_kept_at_the_copy;
                LawId::Transferred => the_version_gate_moves;
                LawId::Transferred => tokens_rise_beyond_the_origin;
                LawId::Transferred => parked_messages_move;
                LawId::Transferred => the_audit_trail_moves;
                LawId::Transferred => identities_move;
            }
            import {
                LawId::ImportAdds => importing_twice_is_harmless;
                LawId::ImportAdds => importing_at_home_changes_nothing;
                LawId::ImportAdds => an_import_replaces_no_record;
                LawId::ImportAdds => an_import_replaces_what_is_forgotten;
                LawId::ImportAdds => an_import_replaces_no_version;
                LawId::ImportAdds => an_import_replaces_no_message;
                LawId::ImportAdds => an_import_replaces_no_mark;
                LawId::ImportAdds => an_imported_token_only_raises;
                LawId::ListComplete => an_imported_entry_without_a_scope_is_of_no_tenant;
                LawId::ImportAdds => an_import_adds_to_what_is_there;
                LawId::ImportAdds => items_may_come_in_any_order;
                LawId::ImportAdds => importers_at_once_add_each_item_once;
                LawId::ImportAdds => an_empty_import_is_answered_empty;
                LawId::ImportAdds => orders_count_at_the_copy;
            }
        }
    };
}

/// Hands every case of durable imports to the macro `$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_durable_transfer_law {
    ($expand:ident $($port:ident)?) => {
        $crate::$expand! { $($port)?
            transfer {
                LawId::Transferred => an_import_survives;
                LawId::Transferred => imported_tokens_survive;
            }
            import {
                LawId::ImportAdds => a_second_import_after_reopening_is_harmless;
            }
        }
    };
}

/// Hands every case of marks that move to the macro `$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_checkpoint_transfer_law {
    ($expand:ident $($port:ident)?) => {
        $crate::$expand! { $($port)?
            import {
                LawId::Transferred => a_checkpoint_moves;
            }
        }
    };
}
