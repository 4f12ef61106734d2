//! Tests of the laws: each planted defect must be caught, and by the law it breaks.

#[path = "planted/decisions.rs"]
mod decisions;
#[path = "planted/port.rs"]
mod port;
#[path = "planted/ports.rs"]
mod ports;
#[path = "planted/store.rs"]
mod store;

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use semel_conformance::{checkpoint_cases, history, store_cases, transfer_cases};
use semel_core::LawId;

use store::Fixture;

/// Declares the bugs, each with a law that must catch it, and a test per bug.
macro_rules! bugs {
    ($($(#[doc = $what:literal])+ $bug:ident $test:ident $law:ident,)+) => {
        /// The defect of a planted store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Bug {
            /// Nothing: the control.
            None,
            $($(#[doc = $what])+ $bug,)+
        }

        impl Bug {
            const ALL: &[Self] = &[Self::None, $(Self::$bug),+];
        }

        $(#[test]
        fn $test() {
            caught_by_a_case(Bug::$bug, LawId::$law);
        })+
    };
}

bugs! {
    /// A claim is looked up, and written a moment later.
    ClaimNotAtomic claims_that_are_not_atomic_are_caught OneClaim,
    /// A settlement is looked up, and written a moment later.
    SettleNotAtomic settlements_that_are_not_atomic_are_caught OutcomeOnce,
    /// A full store lets its records go.
    Forgets a_store_that_forgets_is_caught SameOutcome,
    /// A completion is accepted from any claim.
    StaleClaimCompletes a_stale_completion_is_caught StaleClaimFenced,
    /// A release is accepted from any claim.
    StaleClaimReleases a_stale_release_is_caught StaleClaimFenced,
    /// A second completion replaces the outcome.
    OutcomeOverwritten an_overwritten_outcome_is_caught OutcomeOnce,
    /// Tokens begin anew with a record.
    TokensPerKey tokens_that_restart_are_caught TokensRise,
    /// A takeover gets the token of the claim that it takes over.
    TokenReused a_reused_token_is_caught Takeover,
    /// A claim whose answer was lost is not recognised.
    NeverResumed a_claim_that_is_never_resumed_is_caught ClaimResumed,
    /// A claim that was taken over is resumed when the lease of its successor is over.
    SupersededResumed a_superseded_claim_that_is_resumed_is_caught ClaimResumed,
    /// A resumption takes the lease back to the one that was granted.
    ResumptionCutsLease a_resumption_that_cuts_the_lease_is_caught ClaimResumed,
    /// Leases are ignored.
    LeasesIgnored an_ignored_lease_is_caught Takeover,
    /// Backoffs are ignored.
    BackoffIgnored an_ignored_backoff_is_caught ReleasedAgain,
    /// A renewal is accepted from any claim.
    AnybodyRenews a_renewal_by_anybody_is_caught LeaseOwned,
    /// A lease that ended cannot be renewed though nobody took over.
    NoRevival a_lease_that_is_not_revived_is_caught LeaseOwned,
    /// Keys are compared without regard to case.
    KeysIgnoreCase keys_without_case_are_caught Identity,
    /// Keys lose the space at their end.
    KeysAreTrimmed trimmed_keys_are_caught Identity,
    /// A number is the text that looks like it.
    NumbersAreText numbers_as_text_are_caught Identity,
    /// The tenant is left out.
    TenantsMeet a_forgotten_tenant_is_caught Identity,
    /// Tenant, operation and key are joined without their lengths.
    PartsRunTogether parts_that_run_together_are_caught Identity,
    /// Fingerprints are not compared.
    FingerprintsIgnored ignored_fingerprints_are_caught Reuse,
    /// Fingerprints of two schemes are compared.
    SchemesCompared compared_schemes_are_caught Incomparable,
    /// A conflict does not hand out the members of the first request.
    MembersUntold untold_members_are_caught MembersKept,
    /// A settlement drops the members.
    MembersDropped dropped_members_are_caught MembersKept,
    /// A later claim replaces the members of the first request.
    MembersReplaced replaced_members_are_caught MembersKept,
    /// The origin of a duplicate is not reported.
    DuplicatesUnnamed unnamed_duplicates_are_caught SameOutcome,
    /// Long outcomes are cut.
    OutcomeCut a_cut_outcome_is_caught SameOutcome,
    /// The codec is not kept.
    CodecLost a_lost_codec_is_caught SameOutcome,
    /// Old messages are new.
    AgeGateOff a_missing_age_gate_is_caught AgeGate,
    /// Records never count as absent.
    NeverForgotten a_record_for_ever_is_caught ForgottenInTime,
    /// A sweep takes what is inside its window.
    SweepsEarly an_early_sweep_is_caught KeptInWindow,
    /// A sweep takes what is not finished.
    SweepsUnresolved a_sweep_of_the_unresolved_is_caught UnresolvedKept,
    /// A sweep does not look for vanished parks.
    SweepBlind a_blind_sweep_is_caught UnresolvedKept,
    /// A hold is answered, not kept.
    HoldIgnored an_ignored_hold_is_caught UnresolvedKept,
    /// A vanished park is run again.
    ParksRerun a_park_that_is_rerun_is_caught DoubtParked,
    /// A doubt is run again.
    DoubtsRerun a_doubt_that_is_rerun_is_caught DoubtParked,
    /// A marked claim is only claimed.
    StartUnmarked an_unmarked_start_is_caught DoubtParked,
    /// The completion of a claim in doubt is refused.
    LateEvidenceRefused refused_evidence_is_caught LateEvidence,
    /// The provider's window begins anew with each attempt.
    ProviderWindowRenewed a_renewed_provider_window_is_caught ProviderWindow,
    /// Any failure drops the doubt of earlier attempts.
    DoubtsDropped a_doubt_that_any_failure_drops_is_caught DecisiveOnly,
    /// Not even a decisive failure does.
    DoubtsNeverDropped a_doubt_that_no_failure_drops_is_caught DecisiveOnly,
    /// Possible repeats are not counted.
    RepeatsUncounted uncounted_repeats_are_caught RepeatsCounted,
    /// "Not applied" is believed at once.
    QuietIgnored an_ignored_quiet_time_is_caught Resolved,
    /// "Not applied" is believed however old its evidence is.
    EvidenceAgeIgnored evidence_whose_age_is_ignored_is_caught Resolved,
    /// Attempts are not capped when claimed.
    NoAttemptCap a_missing_cap_is_caught AttemptsCapped,
    /// Requeueing does not count anew.
    RequeueKeepsAttempts attempts_kept_by_a_requeue_are_caught AttemptsCapped,
    /// Work given back is counted.
    GiveBacksCounted counted_give_backs_are_caught BusyIsNoAttempt,
    /// The version that was applied passes again.
    EqualVersionsPass an_equal_version_that_passes_is_caught VersionGate,
    /// Versions are compared as signed numbers.
    VersionsAreSigned signed_versions_are_caught VersionGate,
    /// A late completion lowers the version.
    VersionLowered a_lowered_version_is_caught VersionGate,
    /// A verdict does not raise the version.
    VerdictSkipsVersion a_verdict_without_version_is_caught VersionGate,
    /// Two claims work on one entity.
    EntityNotHeld an_entity_that_is_not_held_is_caught OneClaimPerEntity,
    /// A release leaves the entity held.
    EntityNotFreed an_entity_that_is_not_freed_is_caught OneClaimPerEntity,
    /// A renewal does not hold the entity.
    EntityLeaseNotRenewed an_entity_that_is_let_go_is_caught OneClaimPerEntity,
    /// Answers come in another order.
    BatchReversed a_reversed_batch_is_caught BatchOrder,
    /// After a fenced item the rest is fenced, too.
    FencedBatchStops a_batch_that_stops_is_caught BatchOrder,
    /// A key twice in a batch is decided twice on the same record.
    BatchOfOneSnapshot a_batch_of_one_snapshot_is_caught BatchRepeats,
    /// Parking again replaces the message.
    ParkReplaces a_replaced_message_is_caught ParkedOnce,
    /// Parking again is new.
    ParkAlwaysNew a_message_that_is_always_new_is_caught ParkedOnce,
    /// A payload is kept as text.
    PayloadAsText a_payload_as_text_is_caught ParkedOnce,
    /// The caller sets the time at which it was parked.
    SinceFromCaller a_time_from_the_caller_is_caught ParkedOnce,
    /// A page begins one too late.
    PagesSkip a_skipped_item_is_caught ListComplete,
    /// The page after the first is of any tenant.
    CursorForgetsTenant a_tenant_that_a_cursor_forgets_is_caught ListComplete,
    /// The page after the first is of any operation.
    CursorForgetsOperation an_operation_that_a_cursor_forgets_is_caught ListComplete,
    /// The empty tenant is any tenant.
    EmptyTenantIsAny an_empty_tenant_that_is_any_is_caught ListComplete,
    /// A foreign cursor begins anew.
    AnyCursorGoes a_misread_cursor_is_caught ListComplete,
    /// Dead records are not counted.
    StatsMiscount a_miscount_is_caught ListComplete,
    /// Entities are not counted.
    EntitiesUncounted uncounted_entities_are_caught ListComplete,
    /// Records that have passed their window are not counted.
    RememberedUncounted uncounted_memory_of_the_expired_is_caught ListComplete,
    /// An estimate is the count of what was looked at.
    EstimateUnscaled an_estimate_of_a_part_is_caught ListComplete,
    /// The audit trail is not counted.
    AuditUncounted an_uncounted_audit_trail_is_caught ListComplete,
    /// A record forgets its past attempts.
    PastForgotten a_forgotten_past_is_caught PastKept,
    /// A past attempt does not say why it ended.
    PastWithoutReason a_past_without_reason_is_caught PastKept,
    /// A vanished claim is not recorded.
    VanishedUntold an_untold_vanished_claim_is_caught PastKept,
    /// A sweep does not record the attempt that it found.
    SweepUntold an_untold_sweep_is_caught PastKept,
    /// From a full past, the oldest attempt is dropped, even if two in a row were given back.
    PastDropsOldest a_past_without_its_oldest_is_caught PastKept,
    /// Of two in a row that were given back, the later one is dropped.
    PastDropsLater a_past_without_the_later_is_caught PastKept,
    /// The time of the latest claim's grant is that of the first one.
    ClaimedAtFrozen a_frozen_time_of_claim_is_caught PastKept,
    /// An order to release is answered, not carried out.
    ReleaseOrderIgnored an_ignored_release_order_is_caught ReleaseOrdered,
    /// An order to release fences the claimant before another has claimed.
    ReleaseOrderFences a_fencing_release_order_is_caught ReleaseOrdered,
    /// An order to release leaves the entity held.
    ReleaseOrderKeepsEntity a_release_order_without_entity_is_caught ReleaseOrdered,
    /// An order to release moves a wait that is over to now.
    ReleaseOrderMoves a_moving_release_order_is_caught ReleaseOrdered,
    /// Orders are not entered.
    AuditMissing a_missing_entry_is_caught AuditedOnce,
    /// Drops are not entered.
    DropUnaudited an_unaudited_drop_is_caught AuditedOnce,
    /// Orders that were refused are entered.
    AuditsRefusals an_audited_refusal_is_caught AuditedOnce,
    /// Orders without a note are entered.
    AuditsProbes an_audited_probe_is_caught AuditedOnce,
    /// An entry has the state after the order in place of the state before.
    AuditedAfter an_entry_without_before_is_caught AuditedOnce,
    /// An admission stays although its write failed.
    AdmitKeepsFailed an_admission_kept_after_failure_is_caught AdmittedTogether,
    /// The version gate stays where a write that failed moved it.
    AdmitKeepsVersion a_version_kept_after_failure_is_caught AdmittedTogether,
    /// An admitted operation is only claimed.
    AdmitClaimsOnly an_incomplete_admission_is_caught AdmittedTogether,
    /// The mark of an admission is lost.
    AdmitWithoutMark an_admission_without_mark_is_caught AdmittedTogether,
    /// A request that marks its effect as started is admitted.
    AdmitTakesMarked a_marked_admission_is_caught AdmittedTogether,
    /// Other calls are served while an admission is written.
    AdmitUnlocked an_unlocked_admission_is_caught AdmittedTogether,
    /// Outcomes are left out of an export.
    ExportWithoutOutcomes an_export_without_outcomes_is_caught Transferred,
    /// Entities are left out of an export.
    ExportWithoutEntities an_export_without_entities_is_caught Transferred,
    /// An export leaves out the token.
    ExportWithoutToken an_export_without_token_is_caught Transferred,
    /// An export includes records that count as absent.
    ExportsForgotten an_export_of_the_forgotten_is_caught Transferred,
    /// A page of an export begins one too late.
    ExportSkips an_export_that_skips_is_caught Transferred,
    /// A page of an export holds as many messages as were asked for, however large they are.
    ExportUnbounded an_export_without_bound_is_caught Transferred,
    /// A foreign cursor begins an export anew.
    AnyExportCursorGoes a_misread_cursor_of_an_export_is_caught Transferred,
    /// An import says that everything happened now.
    ImportStampsTimes an_import_with_times_of_its_own_is_caught Transferred,
    /// Past attempts are left out of an import.
    ImportWithoutPast an_import_without_past_is_caught Transferred,
    /// An import replaces what is there.
    ImportReplaces an_import_that_replaces_is_caught ImportAdds,
    /// An import says of everything that it is new.
    ImportAlwaysNew an_import_that_is_always_new_is_caught ImportAdds,
    /// An imported token replaces the store's own.
    ImportLowersToken an_import_that_lowers_the_token_is_caught ImportAdds,
    /// An imported mark replaces the one that is there.
    ImportReplacesMarks an_import_that_replaces_marks_is_caught ImportAdds,
    /// A record that counts as absent is in the way of an import.
    ImportSeesForgotten an_import_that_sees_the_forgotten_is_caught ImportAdds,
}

/// The control: without a bug every case passes, or the suite catches nothing but itself.
#[test]
fn a_store_without_a_bug_passes_every_case() {
    let failed = failures(Bug::None, |_| true);
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn a_store_without_a_bug_passes_every_history() {
    assert!(race(Bug::None, 100).is_none());
    assert!(sequence(Bug::None, 100).is_none());
    assert!(moving(Bug::None, 100).is_none());
}

/// Claims that are not atomic show only under concurrency; a race finds them.
#[test]
fn races_find_claims_that_are_not_atomic() {
    let broken = race(Bug::ClaimNotAtomic, 100).expect("a race finds it");
    assert!(
        broken.history.lines().count() < 60,
        "the history is cut short:\n{broken}"
    );
}

#[test]
fn races_find_settlements_that_are_not_atomic() {
    assert!(race(Bug::SettleNotAtomic, 100).is_some());
}

#[test]
fn races_and_sequences_find_a_store_that_forgets() {
    assert!(race(Bug::Forgets, 100).is_some());
    assert!(sequence(Bug::Forgets, 100).is_some());
}

#[test]
fn races_and_sequences_find_a_stale_completion() {
    assert!(race(Bug::StaleClaimCompletes, 100).is_some());
    let broken = sequence(Bug::StaleClaimCompletes, 100).expect("it is found");
    let calls = broken
        .history
        .lines()
        .filter(|line| line.contains("=>"))
        .count();
    assert!(
        calls <= 3,
        "a claim and a completion by another say it all:\n{broken}"
    );
}

/// Bugs that a sequence of calls can show, and does within a few hundred seeds.
#[test]
fn sequences_find_defects_of_every_kind() {
    macro_rules! found {
        ($($bug:ident)+) => {
            $(assert!(
                sequence(Bug::$bug, SEEDS).is_some(),
                "{:?} is not found", Bug::$bug
            );)+
        };
    }
    found! {
        StaleClaimReleases OutcomeOverwritten TokensPerKey TokenReused NeverResumed LeasesIgnored
        BackoffIgnored AnybodyRenews NoRevival FingerprintsIgnored DuplicatesUnnamed AgeGateOff
        NeverForgotten SweepsUnresolved SweepBlind HoldIgnored ParksRerun DoubtsRerun StartUnmarked
        LateEvidenceRefused ProviderWindowRenewed DoubtsDropped DoubtsNeverDropped RepeatsUncounted
        QuietIgnored NoAttemptCap
        RequeueKeepsAttempts GiveBacksCounted EqualVersionsPass VersionLowered EntityNotHeld
        EntityNotFreed BatchReversed BatchOfOneSnapshot PagesSkip PastForgotten PastWithoutReason
        VanishedUntold SweepUntold ClaimedAtFrozen ReleaseOrderIgnored ReleaseOrderFences
        ReleaseOrderKeepsEntity ReleaseOrderMoves AuditMissing AuditsRefusals AuditsProbes
        AuditedAfter
    }
}

/// Bugs of exports and imports that a sequence shows which moves half way.
#[test]
fn moves_find_defects_of_every_kind() {
    macro_rules! found {
        ($($bug:ident)+) => {
            $(assert!(moving(Bug::$bug, SEEDS).is_some(), "{:?} is not found", Bug::$bug);)+
        };
    }
    found! {
        ExportWithoutOutcomes ExportWithoutEntities ExportWithoutToken ExportSkips ImportStampsTimes
        ImportWithoutPast ImportAlwaysNew
    }
}

/// Bugs that a race shows, though its clock stands still.
#[test]
fn races_find_defects_of_every_kind() {
    macro_rules! found {
        ($($bug:ident)+) => {
            $(assert!(
                race(Bug::$bug, SEEDS).is_some(),
                "{:?} is not found", Bug::$bug
            );)+
        };
    }
    found! {
        StaleClaimReleases OutcomeOverwritten TokenReused NeverResumed LeasesIgnored AnybodyRenews
        FingerprintsIgnored ParksRerun DoubtsRerun RepeatsUncounted GiveBacksCounted EntityNotHeld
        BatchReversed BatchOfOneSnapshot PastForgotten PastWithoutReason VanishedUntold
        ReleaseOrderIgnored ReleaseOrderFences AuditMissing AuditsRefusals
    }
}

/// Checks that a planted bug fails some case of the law that it breaks.
fn caught_by_a_case(bug: Bug, law: LawId) {
    assert!(
        !failures(bug, |other| other == law).is_empty(),
        "no case of {law} catches {bug:?}"
    );
}

/// The failing cases of some laws.
fn failures(bug: Bug, wanted: impl Fn(LawId) -> bool) -> Vec<&'static str> {
    let _planting = Planting::of(bug);
    let cases = store_cases::<Fixture>()
        .into_iter()
        .chain(checkpoint_cases::<Fixture>())
        .chain(transfer_cases::<Fixture>())
        .filter(|case| wanted(case.law));
    let failed = cases.filter(|case| catch_unwind(|| case.run()).is_err());
    failed.map(|case| case.name).collect()
}

fn race(bug: Bug, count: u64) -> Option<history::Broken> {
    let _planting = Planting::of(bug);
    runtime().block_on(history::race::<Fixture>(1, count)).err()
}

fn sequence(bug: Bug, count: u64) -> Option<history::Broken> {
    let _planting = Planting::of(bug);
    runtime()
        .block_on(history::sequence::<Fixture>(1, count))
        .err()
}

fn moving(bug: Bug, count: u64) -> Option<history::Broken> {
    let _planting = Planting::of(bug);
    runtime()
        .block_on(history::moving::<Fixture>(1, count))
        .err()
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime starts")
}

/// The bug of the stores that are opened now.
pub(crate) fn planted() -> Bug {
    Bug::ALL[PLANTED.load(Ordering::SeqCst)]
}

/// While it lives, stores are opened with its bug, one test at a time, and panics are not printed.
struct Planting(#[expect(dead_code, reason = "held, not read")] MutexGuard<'static, ()>);

impl Planting {
    fn of(bug: Bug) -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        PLANTED.store(bug as usize, Ordering::SeqCst);
        std::panic::set_hook(Box::new(|_| {}));
        Self(alone)
    }
}

impl Drop for Planting {
    fn drop(&mut self) {
        // Restores the hook that prints.
        drop(std::panic::take_hook());
    }
}

/// Enough for the rarest of them; the search ends with the first seed that shows it.
const SEEDS: u64 = 300;
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static PLANTED: AtomicUsize = AtomicUsize::new(0);
