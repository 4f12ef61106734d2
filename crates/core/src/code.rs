//! Stable codes of every condition that an operator can meet. Each has a page in the book, shown by
//! `semel explain CODE`.

use std::fmt;

/// A stable code: kebab-case, never renamed once released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The input of a call is not acceptable.
    InvalidInput,
    /// A setting is not acceptable.
    InvalidConfig,
    /// The configuration file cannot be read.
    ConfigUnreadable,
    /// The configuration file is not TOML.
    ConfigSyntax,
    /// A key of the configuration is not known.
    ConfigUnknownKey,
    /// This backend or build cannot do that.
    Unsupported,
    /// Another claim owns the operation now.
    ClaimLost,
    /// The record changed meanwhile.
    Conflict,
    /// Refused for load.
    Throttled,
    /// The store cannot be reached or opened.
    StoreUnavailable,
    /// Another process has the store open.
    StoreInUse,
    /// The store was written by a newer version.
    StoreNewer,
    /// The files are not a store of this kind.
    StoreForeign,
    /// The folder or file of the store cannot be written.
    StoreReadOnly,
    /// The disk under the store is full.
    StoreFull,
    /// A flush failed; the store refuses further writes until it is opened anew.
    StorePoisoned,
    /// Another program listens at the address.
    AddressInUse,
    /// A drill could not be played to its end.
    DrillFailed,
    /// The source cannot be opened or read.
    SourceUnavailable,
    /// The target of an effect cannot be opened or written.
    TargetUnavailable,
    /// The target of an effect was not reached.
    TargetAway,
    /// The target of an effect fails with one message after the other.
    TargetFailing,
    /// The program of an effect ends before its first answer, or answers with nonsense.
    HandlerBroken,
    /// None of the first messages of a pipeline has a usable key.
    NoUsableKey,
    /// Another process writes the target of an effect.
    TargetInUse,
    /// One file is read and written.
    SameFile,
    /// The target file is shorter than what the store recorded of it.
    TargetShortened,
    /// An export is cut off or changed.
    ExportDamaged,
    /// Another client is being handed the export of the store.
    ExportUnfinished,
    /// Another claim holds the key.
    InProgress,
    /// The effect failed; another attempt may follow.
    EffectFailed,
    /// The entity has this version or a later one.
    Stale,
    /// A completed operation has no outcome that can be given back.
    OutcomeUnreadable,
    /// A request shows no token, or one that is not good.
    Unauthorized,
    /// A token does not have the role, or the tenant, that a request takes.
    Forbidden,
    /// A webhook has no signature that can be read.
    SignatureMissing,
    /// A webhook is not signed by its provider, or at another time.
    SignatureWrong,
    /// A listener is called by a name that is not its own.
    HostRefused,
    /// A page of another origin calls a listener.
    OriginRefused,
    /// The body of a request is larger than a listener takes.
    BodyTooLarge,
    /// The body of a request is not JSON by its content type.
    UnsupportedMediaType,
    /// A path of an API takes another method.
    MethodNotAllowed,
    /// An API has nothing at a path.
    PathUnknown,
    /// Nothing is on record under a key.
    KeyUnknown,
    /// No message that was set aside has an id.
    MessageUnknown,
    /// The plan of an order no longer holds.
    PlanStale,
    /// A worker does not have a pipeline.
    PipelineUnknown,
    /// A worker remembers no run of messages by an id.
    RunUnknown,
    /// Messages of a pipeline are being run again.
    RunUnfinished,
    /// A worker was not reached at the address of its admin API.
    WorkerUnreachable,
    /// The address of an admin API is that of something else, or of another version.
    WorkerIncompatible,
    /// The idempotency key of a request is none.
    KeyInvalid,
    /// The idempotency key of a request belongs to another one.
    KeyReused,
    /// The service behind an idempotency key was called, and what came of it could not be stored.
    OutcomeUnrecorded,
    /// An answer was too large to be kept for duplicates.
    AnswerTooLarge,
    /// An answer was a stream, which is not kept for duplicates.
    AnswerStreamed,
    /// The service behind an idempotency key was not reached.
    UpstreamUnreachable,
    /// The service behind an idempotency key gave no whole answer.
    UpstreamBroken,
    /// The service behind an idempotency key gave no answer in time.
    UpstreamTimeout,
    /// A later opening of a producer fences this one.
    ProducerFenced,
    /// Messages of a producer wait for another place.
    ProducerElsewhere,
    /// Messages that were sent have no identity.
    ProducerMissing,
    /// A producer that is not on record begins later than at its beginning.
    ProducerUnknown,
    /// Messages that come before these were not sent.
    SequenceGap,
    /// A row cannot be published.
    RowUnpublishable,
    /// No answer arrived in time.
    Timeout,
    /// A stored record does not check out.
    RecordCorrupt,
    /// A defect of Semel.
    Internal,
}

impl Code {
    /// Every code.
    pub const ALL: &[Self] = &[
        Self::InvalidInput,
        Self::InvalidConfig,
        Self::ConfigUnreadable,
        Self::ConfigSyntax,
        Self::ConfigUnknownKey,
        Self::Unsupported,
        Self::ClaimLost,
        Self::Conflict,
        Self::Throttled,
        Self::StoreUnavailable,
        Self::StoreInUse,
        Self::StoreNewer,
        Self::StoreForeign,
        Self::StoreReadOnly,
        Self::StoreFull,
        Self::StorePoisoned,
        Self::AddressInUse,
        Self::DrillFailed,
        Self::SourceUnavailable,
        Self::TargetUnavailable,
        Self::TargetAway,
        Self::TargetFailing,
        Self::HandlerBroken,
        Self::NoUsableKey,
        Self::TargetInUse,
        Self::SameFile,
        Self::TargetShortened,
        Self::ExportDamaged,
        Self::ExportUnfinished,
        Self::InProgress,
        Self::EffectFailed,
        Self::Stale,
        Self::OutcomeUnreadable,
        Self::Unauthorized,
        Self::Forbidden,
        Self::SignatureMissing,
        Self::SignatureWrong,
        Self::HostRefused,
        Self::OriginRefused,
        Self::BodyTooLarge,
        Self::UnsupportedMediaType,
        Self::MethodNotAllowed,
        Self::PathUnknown,
        Self::KeyUnknown,
        Self::MessageUnknown,
        Self::PlanStale,
        Self::PipelineUnknown,
        Self::RunUnknown,
        Self::RunUnfinished,
        Self::WorkerUnreachable,
        Self::WorkerIncompatible,
        Self::KeyInvalid,
        Self::KeyReused,
        Self::OutcomeUnrecorded,
        Self::AnswerTooLarge,
        Self::AnswerStreamed,
        Self::UpstreamUnreachable,
        Self::UpstreamBroken,
        Self::UpstreamTimeout,
        Self::ProducerFenced,
        Self::ProducerElsewhere,
        Self::ProducerMissing,
        Self::ProducerUnknown,
        Self::SequenceGap,
        Self::RowUnpublishable,
        Self::Timeout,
        Self::RecordCorrupt,
        Self::Internal,
    ];

    /// The code as people and programs see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid-input",
            Self::InvalidConfig => "invalid-config",
            Self::ConfigUnreadable => "config-unreadable",
            Self::ConfigSyntax => "config-syntax",
            Self::ConfigUnknownKey => "config-unknown-key",
            Self::Unsupported => "unsupported",
            Self::ClaimLost => "claim-lost",
            Self::Conflict => "conflict",
            Self::Throttled => "throttled",
            Self::StoreUnavailable => "store-unavailable",
            Self::StoreInUse => "store-in-use",
            Self::StoreNewer => "store-newer",
            Self::StoreForeign => "store-foreign",
            Self::StoreReadOnly => "store-read-only",
            Self::StoreFull => "store-full",
            Self::StorePoisoned => "store-poisoned",
            Self::AddressInUse => "address-in-use",
            Self::DrillFailed => "drill-failed",
            Self::SourceUnavailable => "source-unavailable",
            Self::TargetUnavailable => "target-unavailable",
            Self::TargetAway => "target-away",
            Self::TargetFailing => "target-failing",
            Self::HandlerBroken => "handler-broken",
            Self::NoUsableKey => "no-usable-key",
            Self::TargetInUse => "target-in-use",
            Self::SameFile => "same-file",
            Self::TargetShortened => "target-shortened",
            Self::ExportDamaged => "export-damaged",
            Self::ExportUnfinished => "export-unfinished",
            Self::InProgress => "in-progress",
            Self::EffectFailed => "effect-failed",
            Self::Stale => "stale",
            Self::OutcomeUnreadable => "outcome-unreadable",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::SignatureMissing => "signature-missing",
            Self::SignatureWrong => "signature-wrong",
            Self::HostRefused => "host-refused",
            Self::OriginRefused => "origin-refused",
            Self::BodyTooLarge => "body-too-large",
            Self::UnsupportedMediaType => "unsupported-media-type",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::PathUnknown => "path-unknown",
            Self::KeyUnknown => "key-unknown",
            Self::MessageUnknown => "message-unknown",
            Self::PlanStale => "plan-stale",
            Self::PipelineUnknown => "pipeline-unknown",
            Self::RunUnknown => "run-unknown",
            Self::RunUnfinished => "run-unfinished",
            Self::WorkerUnreachable => "worker-unreachable",
            Self::WorkerIncompatible => "worker-incompatible",
            Self::KeyInvalid => "key-invalid",
            Self::KeyReused => "key-reused",
            Self::OutcomeUnrecorded => "outcome-unrecorded",
            Self::AnswerTooLarge => "answer-too-large",
            Self::AnswerStreamed => "answer-streamed",
            Self::UpstreamUnreachable => "upstream-unreachable",
            Self::UpstreamBroken => "upstream-broken",
            Self::UpstreamTimeout => "upstream-timeout",
            Self::ProducerFenced => "producer-fenced",
            Self::ProducerElsewhere => "producer-elsewhere",
            Self::ProducerMissing => "producer-missing",
            Self::ProducerUnknown => "producer-unknown",
            Self::SequenceGap => "sequence-gap",
            Self::RowUnpublishable => "row-unpublishable",
            Self::Timeout => "timeout",
            Self::RecordCorrupt => "record-corrupt",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_has_a_name_of_its_own_that_it_is_shown_by() {
        let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for name in names {
            let is_kebab = name.bytes().all(|it| it.is_ascii_lowercase() || it == b'-');
            assert!(is_kebab && !name.starts_with('-'), "{name}");
        }
        assert_eq!(Code::StoreReadOnly.to_string(), "store-read-only");
    }
}
