//! The certificate that a client shows: whom it names.

use std::fmt::Write;
use std::sync::Arc;

/// The subject of the certificate that a client has shown, and that an authority of the listener's choice vouches for. A
/// listener puts it among the extensions of each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate(Arc<Subject>);

#[derive(Debug, PartialEq, Eq)]
struct Subject {
    text: Box<str>,
    common_name: Option<Box<str>>,
}

impl ClientCertificate {
    /// Reads the subject of a certificate in DER, whose signature somebody else has checked; nothing if it is no
    /// certificate. A subject without parts is the empty text.
    pub fn of_der(der: &[u8]) -> Option<Self> {
        let attributes = attributes(der)?;
        let mut text = String::new();
        for part in attributes.iter().rev() {
            if !text.is_empty() {
                text.push(if part.goes_on { '+' } else { ',' });
            }
            part.write(&mut text)?;
        }
        let mut names = attributes.iter().filter(|it| it.oid == COMMON_NAME);
        let name = match (names.next(), names.next()) {
            (Some(only), None) => only.value(),
            _ => None,
        };
        Some(Self(Arc::new(Subject {
            text: text.into(),
            common_name: name.map(Into::into),
        })))
    }

    /// A certificate with this subject and common name.
    #[cfg(test)]
    pub(crate) fn named(subject: &str, common_name: &str) -> Self {
        Self(Arc::new(Subject {
            text: subject.into(),
            common_name: Some(common_name.into()),
        }))
    }

    /// The subject as RFC 4514 writes it, its last part first: `CN=billing,O=Acme`.
    pub fn subject(&self) -> &str {
        &self.0.text
    }

    /// The common name, if there is exactly one.
    pub fn common_name(&self) -> Option<&str> {
        self.0.common_name.as_deref()
    }
}

/// A part of a subject.
struct Attribute<'d> {
    oid: &'d [u8],
    tag: u8,
    raw: &'d [u8],
    /// True if the next one belongs to the same relative name.
    goes_on: bool,
}

impl Attribute<'_> {
    /// The value as text; nothing if it is of a kind that has none.
    fn value(&self) -> Option<String> {
        match self.tag {
            UTF8 | PRINTABLE | IA5 => String::from_utf8(self.raw.to_vec()).ok(),
            BMP => {
                let units = self.raw.chunks_exact(2);
                let is_whole = units.remainder().is_empty();
                let units = units.map(|it| u16::from_be_bytes([it[0], it[1]]));
                let text = char::decode_utf16(units).collect::<Result<String, _>>();
                text.ok().filter(|_| is_whole)
            }
            _ => None,
        }
    }

    fn write(&self, text: &mut String) -> Option<()> {
        let name = NAMES.iter().find(|(oid, _)| *oid == self.oid);
        match (name, self.value()) {
            (Some((_, name)), Some(value)) => {
                text.push_str(name);
                text.push('=');
                escape(&value, text);
            }
            (name, _) => {
                match name {
                    Some((_, name)) => text.push_str(name),
                    None => dotted(self.oid, text)?,
                }
                text.push_str("=#");
                let len = u8::try_from(self.raw.len()).ok().filter(|len| *len < 128)?;
                for byte in [self.tag, len].iter().chain(self.raw) {
                    let _ = write!(text, "{byte:02x}");
                }
            }
        }
        Some(())
    }
}

/// Writes a value so that no character of it is taken for a part of the subject (RFC 4514 §2.4).
fn escape(value: &str, text: &mut String) {
    let last = value.len().saturating_sub(1);
    for (at, letter) in value.char_indices() {
        let is_special = matches!(letter, '"' | '+' | ',' | ';' | '<' | '>' | '\\')
            || letter == '#' && at == 0
            || letter == ' ' && (at == 0 || at == last);
        if letter.is_control() {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                let _ = write!(text, "\\{byte:02X}");
            }
            continue;
        }
        if is_special {
            text.push('\\');
        }
        text.push(letter);
    }
}

/// Writes an object identifier as numbers with dots.
fn dotted(oid: &[u8], text: &mut String) -> Option<()> {
    let mut number: u64 = 0;
    let mut is_first = true;
    for byte in oid {
        number = number
            .checked_mul(128)?
            .checked_add(u64::from(byte & 0x7f))?;
        if byte & 0x80 != 0 {
            continue;
        }
        if is_first {
            let root = (number / 40).min(2);
            let _ = write!(text, "{root}.{}", number - root * 40);
        } else {
            let _ = write!(text, ".{number}");
        }
        (number, is_first) = (0, false);
    }
    Some(())
}

/// Returns the parts of the subject of a certificate, in their order.
fn attributes(der: &[u8]) -> Option<Vec<Attribute<'_>>> {
    let mut rest = der;
    let mut certificate = inside(&mut rest, SEQUENCE)?;
    let mut signed = inside(&mut certificate, SEQUENCE)?;
    let mut before_version = signed;
    if take(&mut before_version)?.0 == VERSION {
        signed = before_version;
    }
    inside(&mut signed, INTEGER)?;
    // The algorithm, the issuer and the validity.
    for _ in 0..3 {
        inside(&mut signed, SEQUENCE)?;
    }
    let mut subject = inside(&mut signed, SEQUENCE)?;
    let mut attributes = Vec::new();
    while !subject.is_empty() {
        let mut relative = inside(&mut subject, SET)?;
        while !relative.is_empty() {
            let mut attribute = inside(&mut relative, SEQUENCE)?;
            let oid = inside(&mut attribute, OID)?;
            let (tag, raw) = take(&mut attribute)?;
            attributes.push(Attribute {
                oid,
                tag,
                raw,
                goes_on: !relative.is_empty(),
            });
        }
    }
    Some(attributes)
}

/// Takes an element of this kind; returns its content.
fn inside<'d>(rest: &mut &'d [u8], tag: u8) -> Option<&'d [u8]> {
    take(rest).filter(|(found, _)| *found == tag).map(|it| it.1)
}

/// Takes the next element: its kind and its content.
fn take<'d>(rest: &mut &'d [u8]) -> Option<(u8, &'d [u8])> {
    let (&[tag, first], mut after) = rest.split_first_chunk()?;
    let len = if first < 0x80 {
        usize::from(first)
    } else {
        let (bytes, behind) = after.split_at_checked(usize::from(first & 0x7f))?;
        after = behind;
        if bytes.is_empty() || bytes.len() > 4 {
            return None;
        }
        bytes
            .iter()
            .fold(0, |len, byte| (len << 8) | usize::from(*byte))
    };
    let (content, behind) = after.split_at_checked(len)?;
    *rest = behind;
    Some((tag, content))
}

const VERSION: u8 = 0xa0;
const INTEGER: u8 = 0x02;
const OID: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const IA5: u8 = 0x16;
const BMP: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const COMMON_NAME: &[u8] = &[0x55, 4, 3];

/// The names of the usual parts, as OpenSSL writes them.
const NAMES: [(&[u8], &str); 11] = [
    (COMMON_NAME, "CN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "street"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
        "emailAddress",
    ),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
        "UID",
    ),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        "DC",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of a subject: what it is, and the kind and the bytes of its value.
    type Part<'a> = (&'a [u8], u8, &'a [u8]);

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut all = vec![tag];
        match content.len() {
            len @ 0..0x80 => all.push(u8::try_from(len).expect("short")),
            len => {
                let len = u16::try_from(len).expect("not long").to_be_bytes();
                all.extend([0x82, len[0], len[1]]);
            }
        }
        all.extend_from_slice(content);
        all
    }

    /// A certificate as far as it is read, with a subject of these relative names.
    fn certificate(names: &[&[Part<'_>]]) -> Vec<u8> {
        let relative = |parts: &&[Part<'_>]| {
            let parts = parts.iter().map(|(oid, tag, value)| {
                let inner = [element(OID, oid), element(*tag, value)].concat();
                element(SEQUENCE, &inner)
            });
            element(SET, &parts.collect::<Vec<_>>().concat())
        };
        let subject: Vec<_> = names.iter().map(relative).collect();
        let signed = [
            element(VERSION, &element(INTEGER, &[2])),
            element(INTEGER, &[7]),
            element(SEQUENCE, &[]),
            element(SEQUENCE, &element(SET, b"an issuer")),
            element(SEQUENCE, &[0; 200]),
            element(SEQUENCE, &subject.concat()),
            element(SEQUENCE, b"a key"),
        ];
        element(SEQUENCE, &element(SEQUENCE, &signed.concat()))
    }

    fn text(names: &[&[Part<'_>]]) -> Option<String> {
        let found = ClientCertificate::of_der(&certificate(names))?;
        Some(found.subject().to_owned())
    }

    const O: &[u8] = &[0x55, 4, 10];
    const CN: &[u8] = COMMON_NAME;

    #[test]
    fn a_subject_is_written_as_openssl_writes_it() {
        let acme: &[Part<'_>] = &[(O, UTF8, b"Acme")];
        let billing: &[Part<'_>] = &[(CN, PRINTABLE, b"billing")];
        assert_eq!(text(&[acme, billing]).as_deref(), Some("CN=billing,O=Acme"));
        let both: &[Part<'_>] = &[(O, UTF8, b"Acme"), (CN, UTF8, b"b")];
        assert_eq!(text(&[both, acme]).as_deref(), Some("O=Acme,CN=b+O=Acme"));
        let wide: &[Part<'_>] = &[(CN, BMP, &[0, b'a', 0x20, 0xac])];
        assert_eq!(text(&[wide]).as_deref(), Some("CN=a\u{20ac}"));
        assert_eq!(text(&[]).as_deref(), Some(""), "nobody is named");
    }

    #[test]
    fn no_value_is_taken_for_another_part() {
        for (value, expected) in [
            ("a,O=Acme", r"CN=a\,O=Acme"),
            ("a+CN=b", r"CN=a\+CN=b"),
            ("#a \"b\" ", "CN=\\#a \\\"b\\\"\\ "),
            (" ", r"CN=\ "),
            ("a\\", r"CN=a\\"),
            ("a\r\nb\0", r"CN=a\0D\0Ab\00"),
            ("é", "CN=é"),
        ] {
            let part: &[Part<'_>] = &[(CN, UTF8, value.as_bytes())];
            assert_eq!(text(&[part]).as_deref(), Some(expected), "{value:?}");
        }
        // A kind or a part that is not known is written by its bytes.
        let bits: &[Part<'_>] = &[(CN, 0x03, &[0, 1])];
        assert_eq!(text(&[bits]).as_deref(), Some("CN=#03020001"));
        let other: &[Part<'_>] = &[(&[0x2a, 0x86, 0x48, 1], UTF8, b"x")];
        assert_eq!(text(&[other]).as_deref(), Some("1.2.840.1=#0c0178"));
    }

    #[test]
    fn the_common_name_is_the_only_one() {
        let name = |names: &[&[Part<'_>]]| {
            let found = ClientCertificate::of_der(&certificate(names)).expect("a subject");
            found.common_name().map(str::to_owned)
        };
        let one: &[Part<'_>] = &[(CN, UTF8, b"acme")];
        let other: &[Part<'_>] = &[(CN, UTF8, b"other")];
        let organisation: &[Part<'_>] = &[(O, UTF8, b"Acme")];
        assert_eq!(name(&[organisation, one]).as_deref(), Some("acme"));
        assert_eq!(name(&[one, other]), None);
        assert_eq!(name(&[organisation]), None);
        assert_eq!(name(&[&[(CN, UTF8, b"\xff")]]), None);
    }

    #[test]
    fn what_is_no_certificate_names_nobody() {
        let whole = certificate(&[&[(CN, UTF8, b"billing")]]);
        for len in 0..whole.len() {
            assert_eq!(ClientCertificate::of_der(&whole[..len]), None, "{len}");
        }
        assert_eq!(
            ClientCertificate::of_der(&[0x30, 0x84, 255, 255, 255, 255]),
            None
        );
        assert_eq!(ClientCertificate::of_der(&[0x30, 0x80, 0, 0]), None);
    }
}
