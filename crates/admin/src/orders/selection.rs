//! The records or messages that an order is about: some by their keys or ids, or all that something is true of.

use std::collections::BTreeSet;
use std::time::Duration;

use semel_core::Key;
use semel_core::json::Kind;
use semel_core::outbox::OutboxId;
use semel_core::port::store::ListQuery;
use semel_http::member::{Fault, Member, printed_key};

use super::MOST_CHANGES;

/// The records or messages that an order is about.
#[derive(Debug)]
pub(super) struct Selection {
    /// The pipeline and the tenant.
    pub(super) within: ListQuery,
    pub(super) which: Which,
}

#[derive(Debug)]
pub(super) enum Which {
    /// Those of these keys, in the order in which they were named.
    Keys(Vec<Key>),
    /// Those with these ids, of operations or of messages, in lower case.
    Ids(Vec<String>),
    /// All of them, or those that are older, or have this in their reason.
    All {
        older_than: Option<Duration>,
        reason_like: Option<String>,
    },
}

/// The dead letters of relays that an order is about.
#[derive(Debug)]
pub(super) struct LetterSelection {
    /// The relay; none where all are meant.
    pub(super) relay: Option<String>,
    pub(super) which: WhichLetters,
}

#[derive(Debug)]
pub(super) enum WhichLetters {
    /// Those with these ids.
    Ids(Vec<OutboxId>),
    /// All of them, or those that are older, or have this in their error.
    All {
        older_than: Option<Duration>,
        reason_like: Option<String>,
    },
}

/// The members of a request that select something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'n> {
    pub(super) keys: Option<Member<'n>>,
    pub(super) ids: Option<Member<'n>>,
    pub(super) all: Option<Member<'n>>,
    pub(super) older_than: Option<Member<'n>>,
    pub(super) reason_like: Option<Member<'n>>,
}

impl<'n> Parts<'n> {
    /// Those of an order that is not about all there are.
    pub(super) const fn named(keys: Option<Member<'n>>, ids: Option<Member<'n>>) -> Self {
        Self {
            keys,
            ids,
            all: None,
            older_than: None,
            reason_like: None,
        }
    }
}

impl Parts<'_> {
    /// Tells whether all are meant; else there are no conditions on them.
    fn is_all(&self) -> Result<bool, Fault> {
        let all = self.all.map(|it| it.boolean()).transpose()?;
        let is_all = all.unwrap_or_default();
        match self.older_than.or(self.reason_like).filter(|_| !is_all) {
            Some(condition) => Err(condition.fault("this is a condition on `all`")),
            None => Ok(is_all),
        }
    }

    /// Reads the conditions on all of them.
    fn conditions(&self) -> Result<(Option<Duration>, Option<String>), Fault> {
        let older_than = self.older_than.map(|it| it.duration()).transpose()?;
        let like = self.reason_like.map(|it| it.text_within(MOST_LIKE_BYTES));
        let like = like.transpose()?.map(std::borrow::Cow::into_owned);
        Ok((older_than, like))
    }
}

impl LetterSelection {
    /// Reads what is selected, of a relay or of all.
    pub(super) fn read(relay: Option<Member<'_>>, parts: &Parts<'_>) -> Result<Self, Fault> {
        let which = match (parts.ids, parts.is_all()?) {
            (Some(ids), false) => {
                WhichLetters::Ids(names(&ids, |text| {
                    let id = text.parse::<OutboxId>();
                    id.map_err(|why| format!("a dead letter of a relay goes by the id of its message, and this is {why}"))
                })?)
            }
            (None, true) => {
                let (older_than, reason_like) = parts.conditions()?;
                WhichLetters::All {
                    older_than,
                    reason_like,
                }
            }
            (None, false) => {
                let detail = "which ones? name them with `ids`, or say `all`";
                return Err(Fault::new("", detail));
            }
            (Some(_), true) => {
                let detail = "name what is meant in one way: `ids` or `all`";
                return Err(Fault::new("", detail));
            }
        };
        let relay = relay.map(|it| it.text().map(std::borrow::Cow::into_owned));
        Ok(Self {
            relay: relay.transpose()?,
            which,
        })
    }
}

impl Selection {
    /// Reads what is selected.
    pub(super) fn read(parts: &Parts<'_>, within: ListQuery) -> Result<Self, Fault> {
        let is_all = parts.is_all()?;
        let which = match (parts.keys, parts.ids, is_all) {
            (Some(keys), None, false) => Which::Keys(names(&keys, printed_key)?),
            (None, Some(ids), false) => Which::Ids(names(&ids, id)?),
            (None, None, true) => {
                let (older_than, reason_like) = parts.conditions()?;
                Which::All {
                    older_than,
                    reason_like,
                }
            }
            (None, None, false) => {
                return Err(Fault::new(
                    "",
                    "which ones? name them with `keys`, `ids` or `all`",
                ));
            }
            _ => {
                let detail = "name what is meant in one way: `keys`, `ids` or `all`";
                return Err(Fault::new("", detail));
            }
        };
        Ok(Self { within, which })
    }
}

/// Reads a list of names, each of which counts once.
pub(super) fn names<T: Ord + Clone>(
    member: &Member<'_>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Fault> {
    let elements = member.elements(MOST_CHANGES)?;
    if elements.is_empty() {
        return Err(member.fault("this names nothing"));
    }
    let (mut names, mut known) = (Vec::with_capacity(elements.len()), BTreeSet::new());
    for (at, element) in elements.into_iter().enumerate() {
        let fault = |why| Fault::new(format!("{}/{at}", member.pointer()), why);
        if element.kind() != Kind::Text {
            return Err(fault("this must be a string".to_owned()));
        }
        let name = read(&element.text()).map_err(fault)?;
        if known.insert(name.clone()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Reads the id of an operation or of a message, as lists have it.
fn id(text: &str) -> Result<String, String> {
    let is_id = (text.len() == OPERATION_DIGITS || text.len() == MESSAGE_DIGITS)
        && text.bytes().all(|it| it.is_ascii_hexdigit());
    if is_id {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(format!(
            "an id has {OPERATION_DIGITS} hexadecimal digits, that of a message {MESSAGE_DIGITS}"
        ))
    }
}

const OPERATION_DIGITS: usize = semel_operate::keys::ID_DIGITS;
const MESSAGE_DIGITS: usize = 32;
const MOST_LIKE_BYTES: usize = 1_024;
