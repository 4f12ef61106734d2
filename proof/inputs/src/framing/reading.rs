//! A second reading of HTTP/1.1, which shares no code with the one that is tested: RFC 9112, and what is written down as
//! accepted beyond it.

/// A request as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) method: Vec<u8>,
    /// The path and the query of the target.
    pub(super) target: Vec<u8>,
    pub(super) fields: Vec<Field>,
    pub(super) body: Vec<u8>,
}

/// The name of a field in small letters, and its value.
pub(super) type Field = (Vec<u8>, Vec<u8>);

/// The place where the reading of a connection stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Behind the last byte, between two requests.
    Whole,
    /// Within a request that may go on.
    Open,
    /// At a request with which the connection ends, since what follows can be read in two ways.
    Closed,
    /// At what is no request, or one that can be read in two ways.
    Wrong,
}

/// Reads all requests of a connection, and those as well that follow one after which it is to end: how far they are
/// served is no matter of framing.
pub(super) fn requests(mut rest: &[u8], strict: bool) -> (Vec<Message>, End) {
    let mut all = Vec::new();
    loop {
        if rest.is_empty() {
            return (all, End::Whole);
        }
        match request(&mut rest, strict) {
            Ok((message, end)) => {
                all.push(message);
                if let Some(end) = end {
                    return (all, end);
                }
            }
            Err(end) => return (all, end),
        }
    }
}

/// Reads one request, and tells how the reading ends if none can follow it.
fn request(rest: &mut &[u8], strict: bool) -> Result<(Message, Option<End>), End> {
    let mut start = line(rest, strict)?;
    while start.is_empty() && !strict {
        // Empty lines before a request are skipped (RFC 9112 §2.2).
        start = line(rest, strict)?;
    }
    let mut words = start.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(End::Wrong);
    };
    let is_new = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" if !strict => false,
        _ => return Err(End::Wrong),
    };
    let is_text = target
        .iter()
        .all(|byte| byte.is_ascii_graphic() || *byte >= 0x80);
    if !is_token(method) || target.is_empty() || !is_text {
        return Err(End::Wrong);
    }
    let fields = fields(rest, strict)?;
    let values = |name: &[u8]| -> Vec<&[u8]> {
        let named = fields.iter().filter(|(it, _)| it == name);
        named.map(|(_, value)| &value[..]).collect()
    };
    let codings = values(b"transfer-encoding");
    let lengths = values(b"content-length");
    let is_chunked = match &codings[..] {
        [] => false,
        [coding] if is_new && coding.eq_ignore_ascii_case(b"chunked") => true,
        _ => return Err(End::Wrong),
    };
    // Both at once: the coding counts, and the connection ends (RFC 9112 §6.1).
    let is_both = is_chunked && !lengths.is_empty();
    if is_both && strict {
        return Err(End::Wrong);
    }
    let len = length(&lengths, strict)?;
    let mut end = is_both.then_some(End::Closed);
    let body = if is_chunked {
        let body = chunks(rest, strict)?;
        match self::fields(rest, true) {
            Ok(_) => {}
            // The body is clear, whatever comes of its trailers.
            Err(End::Wrong) if !strict => end = Some(End::Wrong),
            Err(end) => return Err(end),
        }
        body
    } else {
        let (body, after) = rest.split_at_checked(len).ok_or(End::Open)?;
        *rest = after;
        body.to_vec()
    };
    let message = Message {
        method: method.to_vec(),
        target: path(target).to_vec(),
        fields,
        body,
    };
    Ok((message, end))
}

/// The path and the query of a target, which may be a whole URL; a fragment is for the client alone.
fn path(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|byte| *byte == b'#');
    let target = &target[..end.unwrap_or(target.len())];
    if target.starts_with(b"/") || target == b"*" {
        return target;
    }
    let Some(at) = target.windows(3).position(|it| it == b"://") else {
        return target;
    };
    let rest = &target[at + 3..];
    match rest.iter().position(|byte| matches!(byte, b'/' | b'?')) {
        Some(at) => &rest[at..],
        None => b"/",
    }
}

/// Reads the fields of a head, to the empty line.
fn fields(rest: &mut &[u8], strict: bool) -> Result<Vec<Field>, End> {
    let mut fields = Vec::new();
    loop {
        let line = line(rest, strict)?;
        if line.is_empty() {
            return Ok(fields);
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.ok_or(End::Wrong)?);
        let value = trimmed(&value[1..]);
        let is_value = |byte: &u8| *byte == b'\t' || !byte.is_ascii_control();
        if !is_token(name) || !value.iter().all(is_value) {
            return Err(End::Wrong);
        }
        fields.push((name.to_ascii_lowercase(), value.to_vec()));
    }
}

/// One length, however often it is said; none is zero.
fn length(said: &[&[u8]], strict: bool) -> Result<usize, End> {
    let Some((first, others)) = said.split_first() else {
        return Ok(0);
    };
    let is_one = |others: &[&[u8]]| others.iter().all(|it| number(it, 10) == number(first, 10));
    if !is_one(others) || (strict && !others.is_empty()) {
        return Err(End::Wrong);
    }
    number(first, 10).ok_or(End::Wrong)
}

/// Reads the chunks of a body, to the last one; its trailers follow.
fn chunks(rest: &mut &[u8], strict: bool) -> Result<Vec<u8>, End> {
    let mut body = Vec::new();
    loop {
        // Only a whole line ends ends a size: a single LF is none, whoever reads it.
        let head = crlf_line(rest)?;
        let end = head.iter().position(|byte| *byte == b';');
        let (size, extension) = head.split_at(end.unwrap_or(head.len()));
        if strict && !extension.is_empty() {
            return Err(End::Wrong);
        }
        let len = number(trimmed_end(size), 16).ok_or(End::Wrong)?;
        if len == 0 {
            return Ok(body);
        }
        let (data, after) = rest.split_at_checked(len).ok_or(End::Open)?;
        body.extend_from_slice(data);
        *rest = match after {
            [b'\r', b'\n', after @ ..] => after,
            [] | [b'\r'] => return Err(End::Open),
            _ => return Err(End::Wrong),
        };
    }
}

/// Takes a line off. It ends with CRLF, or with LF alone where that is accepted.
fn line<'t>(rest: &mut &'t [u8], strict: bool) -> Result<&'t [u8], End> {
    let end = rest
        .iter()
        .position(|byte| *byte == b'\n')
        .ok_or(End::Open)?;
    let (line, after) = rest.split_at(end);
    *rest = &after[1..];
    match line {
        [line @ .., b'\r'] if !line.contains(&b'\r') => Ok(line),
        line if !strict && !line.contains(&b'\r') => Ok(line),
        _ => Err(End::Wrong),
    }
}

fn crlf_line<'t>(rest: &mut &'t [u8]) -> Result<&'t [u8], End> {
    line(rest, true)
}

fn number(digits: &[u8], base: u32) -> Option<usize> {
    let is_digit = |byte: &u8| char::from(*byte).is_digit(base);
    let text = std::str::from_utf8(digits).ok();
    let text = text.filter(|_| !digits.is_empty() && digits.iter().all(is_digit))?;
    usize::from_str_radix(text, base).ok()
}

fn is_token(name: &[u8]) -> bool {
    let is_it = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.iter().all(is_it)
}

const fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = value
        && is_blank(*first)
    {
        value = rest;
    }
    trimmed_end(value)
}

fn trimmed_end(mut value: &[u8]) -> &[u8] {
    while let [rest @ .., last] = value
        && is_blank(*last)
    {
        value = rest;
    }
    value
}
