//! Members of documents that nobody is to read.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::scan::Entry;
use super::{Document, InvalidPointer, Kind, Node, Pointer};

/// Members that are hidden wherever a document is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    names: Vec<Box<str>>,
    places: Vec<Pointer>,
}

/// A member that is to be hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HiddenMember {
    /// Every member of this name, at any depth, in upper or lower case.
    Name(Box<str>),
    /// The member at this place.
    Place(Pointer),
}

impl FromStr for HiddenMember {
    type Err = InvalidMember;

    fn from_str(text: &str) -> Result<Self, InvalidMember> {
        if text.starts_with('/') {
            let place = Pointer::parse(text).map_err(InvalidMember::Pointer)?;
            // Whoever writes these means something else, and would hide nothing.
            let is_meant = |step: &str| !matches!(step, "" | "*" | "-");
            if !place.tokens().iter().all(|token| is_meant(&token.name)) {
                return Err(InvalidMember::Place);
            }
            return Ok(Self::Place(place));
        }
        let is_strange = |c: char| c.is_control() || "./:$,[]{}*\"'`".contains(c);
        if text.is_empty() || text.trim() != text || text.contains(is_strange) {
            return Err(InvalidMember::Name);
        }
        Ok(Self::Name(text.into()))
    }
}

impl FromIterator<HiddenMember> for Mask {
    fn from_iter<I: IntoIterator<Item = HiddenMember>>(members: I) -> Self {
        let mut mask = Self::default();
        for member in members {
            match member {
                HiddenMember::Name(name) => mask.names.push(name),
                HiddenMember::Place(place) => mask.places.push(place),
            }
        }
        mask
    }
}

impl Mask {
    /// Tells whether nothing is hidden.
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty() && self.places.is_empty()
    }

    /// Tells whether every member of this name is hidden.
    pub fn has_name(&self, name: &str) -> bool {
        let is_same = |it: &str| it.eq_ignore_ascii_case(name) || is_same_folded(it, name);
        self.names.iter().any(|it| is_same(it))
    }

    /// Returns `text` with the value of each hidden member replaced by [`MASKED`], and all else byte for byte.
    /// Nothing if it is no JSON, where members cannot be told.
    ///
    /// # Cost
    /// As [`Document::parse`] and a walk through the document; nothing is copied where nothing is hidden
    pub fn apply<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        if self.is_empty() {
            return Some(Cow::Borrowed(text));
        }
        let document = Document::parse(text.as_bytes()).ok()?;
        let mut masking = Masking {
            mask: self,
            path: Vec::new(),
            hidden: Vec::new(),
        };
        masking.visit(document.root());
        if masking.hidden.is_empty() {
            return Some(Cow::Borrowed(text));
        }
        let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
        for value in masking.hidden {
            let Entry {
                kind, start, end, ..
            } = value.entry();
            let quote = usize::from(kind == Kind::Text);
            shown.push_str(text.get(at..start as usize - quote)?);
            shown.push_str(MASKED);
            at = end as usize + quote;
        }
        shown.push_str(text.get(at..)?);
        Some(Cow::Owned(shown))
    }
}

/// A look at one document.
struct Masking<'m, 'd> {
    mask: &'m Mask,
    /// The names and indexes on the way to the value that is looked at.
    path: Vec<Cow<'d, str>>,
    /// The values to be hidden, in the order in which they are written.
    hidden: Vec<Node<'d>>,
}

impl<'d> Masking<'_, 'd> {
    fn visit(&mut self, node: Node<'d>) {
        match node.kind() {
            Kind::Object => {
                for (name, value) in node.members() {
                    let name = name.text();
                    let is_named = self.mask.has_name(&name);
                    self.step(name, value, is_named);
                }
            }
            Kind::Array => {
                for (at, value) in node.children().enumerate() {
                    self.step(at.to_string().into(), value, false);
                }
            }
            Kind::Null | Kind::Bool(_) | Kind::Number | Kind::Text => {}
        }
    }

    fn step(&mut self, name: Cow<'d, str>, value: Node<'d>, is_named: bool) {
        self.path.push(name);
        let mut places = self.mask.places.iter();
        if is_named || places.any(|place| is_at(place, &self.path)) {
            self.hidden.push(value);
        } else {
            self.visit(value);
        }
        self.path.pop();
    }
}

/// Compares names of which one is not ASCII, in upper or lower case.
fn is_same_folded(one: &str, other: &str) -> bool {
    !(one.is_ascii() && other.is_ascii()) && one.to_lowercase() == other.to_lowercase()
}

fn is_at(place: &Pointer, path: &[Cow<'_, str>]) -> bool {
    let tokens = place.tokens();
    tokens.len() == path.len()
        && tokens
            .iter()
            .zip(path)
            .all(|(token, step)| *token.name == **step)
}

/// The reason why a text names no member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidMember {
    /// It is no name; a name with such characters can be written as a pointer.
    Name,
    /// It is a pointer with a step that is empty, `*` or `-`, which leads to no member.
    Place,
    /// It begins as a pointer does, and is none.
    Pointer(InvalidPointer),
}

impl fmt::Display for InvalidMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str(
                "must be the name of a member, as in `iban`, or a JSON pointer, as in `/card/number`",
            ),
            Self::Place => f.write_str(
                "has a step that leads to no member; write each place as it is, as in `/items/0/iban`, or the name \
                 alone, as in `iban`, for every member of that name",
            ),
            Self::Pointer(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for InvalidMember {}

/// The JSON that stands for a hidden value.
pub const MASKED: &str = "\"***\"";

#[cfg(test)]
mod tests {
    use super::super::MAX_DEPTH;
    use super::*;

    fn mask(members: &[&str]) -> Mask {
        let members = members.iter().map(|it| it.parse().expect("a member"));
        members.collect::<Mask>()
    }

    #[track_caller]
    fn shows(members: &[&str], text: &str, expected: &str) {
        assert_eq!(mask(members).apply(text).as_deref(), Some(expected));
    }

    #[test]
    fn a_name_is_hidden_at_any_depth_and_all_else_is_kept_byte_for_byte() {
        let text = r#" {"iban": "DE1","a":[{"IBAN":{"x":[1,2]}}, 1.10 ,12345678901234567890], "\u0069ban":null,"ibans":"b"} "#;
        let shown = r#" {"iban": "***","a":[{"IBAN":"***"}, 1.10 ,12345678901234567890], "\u0069ban":"***","ibans":"b"} "#;
        shows(&["iban"], text, shown);
        shows(&["nothing"], text, text);
    }

    #[test]
    fn a_pointer_hides_one_place() {
        let text = r#"{"card":{"number":"4111","a/b":true},"number":7,"list":[{"number":1},{"number":2}]}"#;
        let shown = r#"{"card":{"number":"***","a/b":"***"},"number":7,"list":[{"number":1},{"number":"***"}]}"#;
        shows(
            &["/card/number", "/card/a~1b", "/list/1/number"],
            text,
            shown,
        );
        shows(
            &["/card"],
            text,
            &text.replace(r#"{"number":"4111","a/b":true}"#, MASKED),
        );
    }

    #[test]
    fn members_that_come_twice_are_both_hidden() {
        shows(&["a"], r#"{"a":1,"a":"2"}"#, r#"{"a":"***","a":"***"}"#);
    }

    #[test]
    fn what_is_no_json_is_shown_only_where_nothing_is_hidden() {
        for text in ["", "a=1", r#"{"a":1}{"a":2}"#, r#"{"a":"#] {
            assert_eq!(mask(&["a"]).apply(text), None, "{text}");
            assert_eq!(Mask::default().apply(text).as_deref(), Some(text));
        }
        shows(&["a"], r#""a""#, r#""a""#);
    }

    #[test]
    fn a_document_that_is_too_deep_is_not_shown() {
        let nested = |depth: usize| format!("{}1{}", r#"{"b":"#.repeat(depth), "}".repeat(depth));
        let (deep, deeper) = (nested(MAX_DEPTH), nested(MAX_DEPTH + 1));
        shows(&["a"], &deep, &deep);
        assert_eq!(mask(&["a"]).apply(&deeper), None);
    }

    #[test]
    fn a_name_is_compared_in_upper_and_lower_case() {
        let text = r#"{"Überweisung":1,"IBAN":2}"#;
        let shown = r#"{"Überweisung":"***","IBAN":"***"}"#;
        shows(&["überweisung", "iban"], text, shown);
    }

    #[test]
    fn what_is_no_member_is_refused() {
        let parsed = str::parse::<HiddenMember>;
        let others = [
            "",
            "$.card",
            "card.number",
            "json:/card",
            "a/b",
            "[iban, pan]",
            "iban,pan",
        ];
        for member in others.into_iter().chain([" iban", "\"iban\"", "*", "a\n"]) {
            assert_eq!(parsed(member), Err(InvalidMember::Name), "{member}");
        }
        for place in ["/", "/items/*/iban", "/items/-/iban", "/card/number/"] {
            assert_eq!(parsed(place), Err(InvalidMember::Place), "{place}");
        }
        let tilde = Err(InvalidMember::Pointer(InvalidPointer::Tilde));
        assert_eq!(parsed("/a~2"), tilde);
    }
}
