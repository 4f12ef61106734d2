//! The two lines of the protocol: the form of a request, and the meaning of an answer.

use bytes::Bytes;

use semel_core::json::{Document, Kind, Node, Tape, write_string};
use semel_core::units;
use semel_engine::effect::{Call, Verdict};

use super::super::{base64, excerpt};

/// The line of a request, with its terminator.
pub fn request(id: u64, call: &Call) -> Vec<u8> {
    let key = call.idempotency_key();
    let operation = &call.claim.operation;
    let mut line = Vec::with_capacity(call.payload.len() + 400);
    line.extend_from_slice(format!("{{\"id\":{id},\"operation_id\":\"{key}\"").as_bytes());
    line.extend_from_slice(b",\"operation\":");
    write_string(operation.scope.operation(), &mut line);
    let tenant = operation.scope.tenant();
    if !tenant.is_empty() {
        line.extend_from_slice(b",\"tenant\":");
        write_string(tenant, &mut line);
    }
    line.extend_from_slice(b",\"key\":");
    write_string(operation.key.as_str(), &mut line);
    let (attempt, token) = (call.claim.attempt, call.claim.token);
    let numbers = format!(",\"attempt\":{attempt},\"fencing_token\":{token}");
    line.extend_from_slice(numbers.as_bytes());
    line.extend_from_slice(format!(",\"idempotency_key\":\"{key}\",\"coordinates\":").as_bytes());
    write_string(&call.coordinates, &mut line);
    if let Some(trace) = call.trace() {
        line.extend_from_slice(b",\"traceparent\":");
        write_string(&trace.parent, &mut line);
        if let Some(state) = &trace.state {
            line.extend_from_slice(b",\"tracestate\":");
            write_string(state, &mut line);
        }
    }
    if Document::parse(&call.payload).is_ok() {
        line.extend_from_slice(b",\"payload\":");
        let start = line.len();
        line.extend_from_slice(&call.payload);
        // A terminator in JSON can only be white space.
        for byte in &mut line[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    } else {
        line.extend_from_slice(b",\"payload_base64\":\"");
        base64::write(&call.payload, &mut line);
        line.push(b'"');
    }
    line.extend_from_slice(b"}\n");
    line
}

/// The content of an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request that it answers.
    pub id: u64,
    /// The verdict on the call.
    pub verdict: Verdict,
}

/// Reads the line of an answer, without its terminator.
///
/// # Errors
///
/// the fault in it, to follow "the child sent an answer "
pub fn answer(line: &[u8], tape: &mut Tape) -> Result<Answer, String> {
    let document = Document::parse_onto(line, tape).map_err(|error| {
        format!(
            "that is no JSON ({error}); standard output is for answers, standard error for logs"
        )
    })?;
    let answer = read(document.root());
    *tape = document.into_tape();
    answer
}

fn read(root: Node<'_>) -> Result<Answer, String> {
    if root.kind() != Kind::Object {
        return Err("that is no object".into());
    }
    let member = |name: &str| root.member(name).map_err(|_| format!("with {name} twice"));
    let id = member("id")?
        .filter(|node| node.kind() == Kind::Number)
        .and_then(|node| node.raw().parse().ok())
        .ok_or("without the id of its request")?;
    let text = |name: &str| match member(name)? {
        Some(node) if node.kind() == Kind::Text => Ok(Some(node.text())),
        Some(node) if node.kind() != Kind::Null => Err(format!("whose {name} is no string")),
        _ => Ok(None),
    };
    let error = || -> Result<Box<str>, String> {
        let told = text("error")?.map(|told| excerpt::one_line(told.as_bytes()));
        Ok(told
            .filter(|told| !told.is_empty())
            .unwrap_or_else(|| "no reason given".into())
            .into())
    };
    let verdict = match &*text("status")?.ok_or("without a status")? {
        "done" => Verdict::Done(member("result")?.map(compact).unwrap_or_default()),
        "retry" => {
            let wish = text("retry_after")?.map(|wish| {
                units::duration(&wish).map_err(|fault| {
                    format!("whose retry_after {}", excerpt::one_line(fault.as_bytes()))
                })
            });
            Verdict::NotApplied {
                error: error()?,
                retry_after: wish.transpose()?,
            }
        }
        "dead" => Verdict::Dead {
            error: error()?,
            decisive: match member("decisive")?.map(Node::kind) {
                Some(Kind::Bool(decisive)) => decisive,
                None | Some(Kind::Null) => false,
                Some(_) => return Err("whose decisive is neither true nor false".into()),
            },
        },
        "unknown" => Verdict::MaybeApplied { error: error()? },
        _ => return Err("whose status is none of done, retry, dead and unknown".into()),
    };
    Ok(Answer { id, verdict })
}

/// A value as it is written, without the white space between its parts.
fn compact(node: Node<'_>) -> Bytes {
    if node.kind() == Kind::Text {
        return format!("\"{}\"", node.raw()).into();
    }
    let mut out = Vec::with_capacity(node.raw().len());
    let (mut quoted, mut escaped) = (false, false);
    for &byte in node.raw().as_bytes() {
        if quoted || !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            out.push(byte);
        }
        quoted ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
    }
    out.into()
}

#[cfg(test)]
mod tests;
