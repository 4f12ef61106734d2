//! The orders that pages can give, and the members of a form that each of them has.

use serde_json::{Map, Value};

use crate::form::Form;
use crate::layout::Place;

/// An order that pages can give.
pub(super) struct Order {
    /// Its path below `/v1/`.
    pub(super) path: &'static str,
    pub(super) place: Place,
    /// Its verb, as a button has it.
    pub(super) verb: &'static str,
    /// The page to go back to.
    pub(super) back: &'static str,
    /// The members that name what is meant, and those of the order itself.
    pub(super) members: &'static [(&'static str, Member)],
}

/// The form of a member in JSON.
#[derive(Clone, Copy)]
pub(super) enum Member {
    Texts,
    Text,
    Flag,
}

const IDS: (&str, Member) = ("ids", Member::Texts);
const KEYS: (&str, Member) = ("keys", Member::Texts);
const PIPELINE: (&str, Member) = ("pipeline", Member::Text);
const TENANT: (&str, Member) = ("tenant", Member::Text);
const OF_KEYS: &[(&str, Member)] = &[KEYS, IDS, PIPELINE, TENANT];
const HOLD: &[(&str, Member)] = &[KEYS, IDS, PIPELINE, TENANT, ("off", Member::Flag)];
const EXTEND: &[(&str, Member)] = &[KEYS, IDS, PIPELINE, TENANT, ("window", Member::Text)];
const RESOLVE: &[(&str, Member)] = &[
    KEYS,
    IDS,
    PIPELINE,
    TENANT,
    ("all", Member::Flag),
    ("older_than", Member::Text),
    ("reason_like", Member::Text),
    ("verdict", Member::Text),
    ("outcome", Member::Text),
];
const DROP: &[(&str, Member)] = &[
    IDS,
    PIPELINE,
    TENANT,
    ("all", Member::Flag),
    ("reason_like", Member::Text),
];
const RETRY: &[(&str, Member)] = &[
    KEYS,
    IDS,
    PIPELINE,
    TENANT,
    ("all", Member::Flag),
    ("older_than", Member::Text),
    ("reason_like", Member::Text),
];
const RELEASE: &[(&str, Member)] = &[
    IDS,
    PIPELINE,
    TENANT,
    ("all", Member::Flag),
    ("reason_like", Member::Text),
    ("key", Member::Text),
];
const PIPELINES: &[(&str, Member)] = &[("pipelines", Member::Texts)];
const PRODUCERS: &[(&str, Member)] = &[("producers", Member::Texts), ("side", Member::Text)];

const ORDERS: [Order; 17] = [
    Order {
        path: "in-doubt/resolve",
        place: Place::InDoubt,
        verb: "Resolve",
        back: "/in-doubt",
        members: RESOLVE,
    },
    Order {
        path: "dead-letters/drop",
        place: Place::DeadLetters,
        verb: "Drop",
        back: "/dead-letters",
        members: DROP,
    },
    Order {
        path: "quarantine/drop",
        place: Place::Quarantine,
        verb: "Drop",
        back: "/quarantine",
        members: DROP,
    },
    Order {
        path: "in-doubt/retry",
        place: Place::InDoubt,
        verb: "Call again",
        back: "/in-doubt",
        members: RETRY,
    },
    Order {
        path: "dead-letters/replay",
        place: Place::DeadLetters,
        verb: "Run again",
        back: "/dead-letters",
        members: DROP,
    },
    Order {
        path: "quarantine/release",
        place: Place::Quarantine,
        verb: "Release",
        back: "/quarantine",
        members: RELEASE,
    },
    Order {
        path: "keys/release",
        place: Place::Key,
        verb: "Release",
        back: "/key",
        members: OF_KEYS,
    },
    Order {
        path: "keys/forget",
        place: Place::Key,
        verb: "Forget",
        back: "/key",
        members: OF_KEYS,
    },
    Order {
        path: "keys/hold",
        place: Place::Key,
        verb: "Hold",
        back: "/key",
        members: HOLD,
    },
    Order {
        path: "keys/extend",
        place: Place::Key,
        verb: "Extend",
        back: "/key",
        members: EXTEND,
    },
    Order {
        path: "store/sweep",
        place: Place::Store,
        verb: "Sweep",
        back: "/store",
        members: &[],
    },
    Order {
        path: "pipelines/pause",
        place: Place::Overview,
        verb: "Pause",
        back: "/",
        members: PIPELINES,
    },
    Order {
        path: "pipelines/drain",
        place: Place::Overview,
        verb: "Drain",
        back: "/",
        members: PIPELINES,
    },
    Order {
        path: "pipelines/resume",
        place: Place::Overview,
        verb: "Resume",
        back: "/",
        members: PIPELINES,
    },
    Order {
        path: "producers/freeze",
        place: Place::Elsewhere,
        verb: "Freeze",
        back: "/producers",
        members: PRODUCERS,
    },
    Order {
        path: "producers/thaw",
        place: Place::Elsewhere,
        verb: "Thaw",
        back: "/producers",
        members: PRODUCERS,
    },
    Order {
        path: "producers/release",
        place: Place::Elsewhere,
        verb: "Release",
        back: "/producers",
        members: PRODUCERS,
    },
];

impl Order {
    pub(super) fn of(path: &str) -> Option<&'static Self> {
        ORDERS.iter().find(|it| it.path == path)
    }

    /// The body of a request for its plan; members that are empty are left out. Only the tenant of a key may be empty: it
    /// is that of a pipeline without tenants.
    pub(super) fn body(&self, form: &Form) -> Value {
        let is_of_key = !form.all("keys").is_empty();
        let mut body = Map::new();
        for (name, member) in self.members {
            let value = match member {
                Member::Texts => Value::from(form.all(name)),
                Member::Text => Value::from(form.text(name)),
                Member::Flag => Value::from(form.text(name) == "true"),
            };
            let is_empty = match &value {
                Value::Array(all) => all.is_empty(),
                Value::String(text) => text.is_empty() && !(is_of_key && *name == "tenant"),
                value => *value == Value::Bool(false),
            };
            if !is_empty {
                body.insert((*name).to_owned(), value);
            }
        }
        body.into()
    }

    /// Tells whether a form names something that the order is about.
    pub(super) fn is_about_something(&self, form: &Form) -> bool {
        let named = ["keys", "ids", "pipelines", "producers", "all"].into_iter();
        let mut named = named.flat_map(|it| form.all(it));
        self.members.is_empty() || named.any(|it| !it.is_empty())
    }

    /// Its verb; another one if it ends a hold.
    pub(super) const fn verb_of(&self, is_off: bool) -> &'static str {
        if is_off { "Let go" } else { self.verb }
    }
}
