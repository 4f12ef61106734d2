//! Base64 as RFC 4648 writes it, with padding. Only to write: nobody here reads it.

/// Appends `bytes` in base64.
pub(super) fn write(bytes: &[u8], out: &mut Vec<u8>) {
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
        }
        let mut out = Vec::new();
        write(&[0xFB, 0xFF, 0xFE], &mut out);
        assert_eq!(out, b"+//+");
    }
}
