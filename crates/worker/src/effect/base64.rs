//! Base64 as RFC 4648 writes it, with padding.

/// Appends `bytes` in base64.
pub(crate) fn write(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|at| u32::from(group.get(at).copied().unwrap_or_default()));
        let bits = a << 16 | b << 8 | c;
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place) & 63) as usize;
            out.push(if place <= group.len() {
                DIGITS[digit]
            } else {
                b'='
            });
        }
    }
}

/// The bytes that `coded` encodes, if it has the form that [`write`] produces.
pub(crate) fn read(coded: &[u8]) -> Option<Vec<u8>> {
    if !coded.len().is_multiple_of(4) {
        return None;
    }
    let padding = coded.iter().rev().take_while(|&&digit| digit == b'=');
    let padding = padding.count();
    if padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(coded.len() / 4 * 3);
    for group in coded[..coded.len() - padding].chunks(4) {
        let mut bits = 0;
        for at in 0..4 {
            let value = group.get(at).map_or(Some(0), |&digit| value_of(digit))?;
            bits = bits << 6 | u32::from(value);
        }
        let [_, whole @ ..] = bits.to_be_bytes();
        let (kept, rest) = whole.split_at(group.len() - 1);
        if rest.iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

const fn value_of(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_rfc_4648() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut out = Vec::new();
            write(plain.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), coded);
            assert_eq!(read(coded.as_bytes()).as_deref(), Some(plain.as_bytes()));
        }
        let mut out = Vec::new();
        write(&[0xFB, 0xFF, 0xFE], &mut out);
        assert_eq!(out, b"+//+");
        assert_eq!(read(&out), Some(vec![0xFB, 0xFF, 0xFE]));
    }

    #[test]
    fn what_nobody_would_write_is_not_read() {
        for wrong in [
            "Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "====", "Z===", "Zm 9", "Zm9v\n",
        ] {
            assert_eq!(read(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
