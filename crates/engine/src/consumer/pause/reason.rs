//! The test whether two failures are one and the same.

/// Returns the part of a failure that two equal failures share: the words before the particulars, without numbers
/// other than a status or an exit code. The statuses by which a target turns all callers away count as one.
pub(super) fn reason(error: &str) -> Box<str> {
    let words = error.split_once(": ").map_or(error, |(words, _)| words);
    let digits = |words: &str| words.bytes().take_while(u8::is_ascii_digit).count();
    let mut coded = ["HTTP ", "exit code "].iter();
    let coded = coded.find_map(|prefix| words.strip_prefix(prefix).map(|rest| (*prefix, rest)));
    let (prefix, code, rest) = match coded {
        None => ("", "", words),
        Some((prefix, rest)) => {
            let (code, rest) = rest.split_at(digits(rest));
            (prefix, code, rest)
        }
    };
    let code = match (prefix, code) {
        ("HTTP ", "403" | "404" | "407") => "401",
        (_, code) => code,
    };
    let rest = rest.chars().filter(|letter| !letter.is_ascii_digit());
    let words = prefix.chars().chain(code.chars()).chain(rest);
    words.take(MOST_REASON).collect::<String>().into()
}

const MOST_REASON: usize = 200;
