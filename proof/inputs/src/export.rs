//! The lines of an export, read back by an import.

use semel_core::port::transfer::Item;
use semel_core::{Code, Result, Timestamp};
use semel_worker::transfer::{Head, Reader, Writer};

use super::Fate;
use super::selectors::refusal;

/// Checks an export as it is, and with every checksum made right, so that the code behind the
/// checksums is tested too. A record that is not in Semel's own form is read by other code, and must
/// read the same.
pub(crate) fn check(data: &[u8]) -> std::result::Result<Fate, String> {
    let fate = judge(read(data))?;
    let one = summed(data);
    let read_one = read(&one);
    let other = spaced(data);
    if other.len() > data.len() {
        let ours = read_one.as_ref().map(|(_, items)| items).ok();
        let theirs = read(&summed(&other)).map(|(_, items)| items).ok();
        if ours != theirs.as_ref() {
            return Err(format!("as we write it {ours:?}, with a space {theirs:?}"));
        }
    }
    match judge(read_one)? {
        Fate::Accepted => Ok(Fate::Accepted),
        Fate::Refused => Ok(fate),
    }
}

/// The same with a space in each record, which changes nothing in JSON.
fn spaced(data: &[u8]) -> Vec<u8> {
    const RECORD: &[u8] = b"{\"record\":{";
    let mut text = Vec::new();
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let rest = line.strip_prefix(RECORD).inspect(|_| {
            text.extend_from_slice(RECORD);
            text.push(b' ');
        });
        text.extend_from_slice(rest.unwrap_or(line));
    }
    text
}

/// Checks that what is read is written so that it is read the same.
fn judge(export: Result<(Head, Vec<Item>)>) -> std::result::Result<Fate, String> {
    let (head, items) = match export {
        Ok(export) => export,
        Err(why) if matches!(why.code(), Code::ExportDamaged | Code::StoreNewer) => {
            return refusal(&why.to_string());
        }
        Err(why) => return Err(format!("refused as {}: {why}", why.code())),
    };
    let again = write(&head, &items).and_then(|text| read(&text));
    match again {
        Ok((_, again)) if again == items => Ok(Fate::Accepted),
        Ok((_, again)) => Err(format!("{items:?} come back as {again:?}")),
        Err(why) => Err(format!("cannot be read again: {why}")),
    }
}

fn read(data: &[u8]) -> Result<(Head, Vec<Item>)> {
    let mut reader = Reader::open(data)?;
    let mut items = Vec::new();
    loop {
        let batch = reader.next_batch(3, u64::MAX)?;
        if batch.is_empty() {
            return Ok((reader.head().clone(), items));
        }
        items.extend(batch);
    }
}

fn write(head: &Head, items: &[Item]) -> Result<Vec<u8>> {
    let mut writer = Writer::begin(Vec::new(), &head.store, Timestamp::EPOCH)?;
    for item in items {
        writer.item(item)?;
    }
    writer.end().map(|(text, _)| text)
}

/// The same lines with checksums that fit, and with a last line whose counts are right.
fn summed(data: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut counts = [0_u64; KINDS.len()];
    for line in data.split(|byte| *byte == b'\n') {
        let body = line
            .len()
            .checked_sub(SUM_LEN)
            .and_then(|end| line.get(..end))
            .unwrap_or(line);
        if body.is_empty() {
            continue;
        }
        for (kind, count) in KINDS.iter().zip(&mut counts) {
            let opening = format!("{{\"{}\":", kind.trim_end_matches('s'));
            let opening = opening.replace("entitie\"", "entity\"");
            *count += u64::from(body.starts_with(opening.as_bytes()));
        }
        if body.starts_with(b"{\"end\":") {
            let counted = KINDS.iter().zip(counts);
            let counted: Vec<_> = counted
                .map(|(kind, count)| format!("\"{kind}\":{count}"))
                .collect();
            let end = format!("{{\"end\":{{{}}}", counted.join(","));
            text.extend_from_slice(end.as_bytes());
        } else {
            text.extend_from_slice(body);
        }
        let sum = crc32fast::hash(&text);
        text.extend_from_slice(format!(",\"crc\":\"{sum:08x}\"}}\n").as_bytes());
    }
    text
}

const KINDS: [&str; 6] = [
    "tokens", "records", "entities", "marks", "parked", "audited",
];
/// `,"crc":"01234567"}`
const SUM_LEN: usize = 18;

pub(crate) const WORDS: &[&[u8]] = &[
    b"\n",
    b"{\"token\":1",
    b"{\"mark\":{\"name\":\"m\",\"value\":0}",
    b",\"crc\":\"00000000\"}\n",
    b"\"held\":true,",
    b"\"state\":\"completed\"",
    b"\"state\":\"in_doubt\"",
    b"\"tenant\":\"\",",
    b"\"tenant\":\"t\",",
    b"null",
    b"0",
    b"-1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"1.0",
    b"\"\\u0000\"",
    b"\\ud800",
    b"\\u00e9",
    "é".as_bytes(),
    b"\xff",
    b"\"payload_base64\":\"gA==\"",
    b"\"payload_base64\":\"gB==\"",
    b"\"key\":\"\",",
    b"\"",
    b",",
    b"}",
    b"\"window\":\"7d\"",
    b"\"window\":{\"duration\":\"1ms\",\"margin\":\"0ms\"}",
];
