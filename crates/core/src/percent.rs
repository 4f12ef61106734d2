//! Percent-encoding, as urls write special characters (RFC 3986, 2.1).

/// Returns a text without its `%41` escapes; `None` if a `%` has no two hexadecimal digits behind it, or if the result is
/// not UTF-8.
///
/// ```
/// use semel_core::percent::decoded;
///
/// assert_eq!(decoded("a%26b+c").as_deref(), Some("a&b+c"));
/// assert_eq!(decoded("100%"), None);
/// assert_eq!(decoded("%+1"), None);
/// ```
pub fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let (high, low) = (digit(rest.next())?, digit(rest.next())?);
            u8::try_from(high * 16 + low).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}
