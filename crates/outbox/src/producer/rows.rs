//! The rows of an input: read line by line, by a thread of their own, and made messages of.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use semel_core::producer::{InputMark, ProducerMessage};
use semel_core::select::{Message, Selected, Selector, View};
use semel_core::{Code, Error, ErrorKind, Result};
use tokio::sync::mpsc;

use super::file_state::{FileChange, FileState};

/// An input: a file, or what flows through standard input.
#[derive(Debug)]
pub struct RowInput {
    /// The name, for people.
    pub name: String,
    file: File,
    /// The path of a file that was named.
    path: Option<PathBuf>,
    /// The place of its first byte in the file: standard input begins where whoever had it before has stopped.
    start: u64,
    /// The state of the file when it was opened.
    opened: FileState,
    /// True if it can be read again from its beginning.
    pub is_kept: bool,
}

impl RowInput {
    /// Opens a file; standard input without a path, or with `-`.
    ///
    /// # Errors
    /// `source-unavailable`
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let unread = |name: &str, error: std::io::Error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("cannot read {name}: {error}"),
            )
            .with_code(Code::SourceUnavailable)
            .not_applied()
            .with_source(error)
        };
        let name = Self::name_of(path);
        let path = path.filter(|it| *it != Path::new("-"));
        let opened = match path {
            Some(path) => File::open(path),
            None => std::io::stdin()
                .as_fd()
                .try_clone_to_owned()
                .map(File::from),
        };
        let begun = opened.and_then(|file| Self::begin(name.clone(), file, path));
        begun.map_err(|error| unread(&name, error))
    }

    /// Returns the name of an input, for people.
    pub fn name_of(path: Option<&Path>) -> String {
        let path = path.filter(|it| *it != Path::new("-"));
        path.map_or_else(
            || "standard input".to_owned(),
            |it| it.display().to_string(),
        )
    }

    /// Takes an open file, from where it stands.
    fn begin(name: String, mut file: File, path: Option<&Path>) -> std::io::Result<Self> {
        let about = file.metadata()?;
        if about.is_dir() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        }
        let is_kept = about.is_file();
        Ok(Self {
            name,
            path: path.map(Path::to_owned),
            start: if is_kept { file.stream_position()? } else { 0 },
            opened: FileState::of(&about),
            is_kept,
            file,
        })
    }

    fn unreadable(&self, error: std::io::Error) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            format!("cannot read {}: {error}", self.name),
        )
        .with_code(Code::SourceUnavailable)
        .with_source(error)
    }

    /// Returns the error of an input that cannot be read behind so many rows, which are published.
    fn broken_off(&self, error: std::io::Error, rows: u64) -> Error {
        let error = self.unreadable(error);
        if self.is_kept {
            return error;
        }
        let message = format!(
            "{error}; the {rows} rows before it are published: send the input again from line {} on",
            rows + 1
        );
        Error::new(ErrorKind::Unavailable, message)
            .with_code(Code::SourceUnavailable)
            .with_source(error)
    }

    /// Returns the error of a file that ended behind so many rows, and had more when it was checked.
    fn shortened(&self, rows: u64) -> Error {
        let message = format!(
            "{} became shorter while it was read: it ends behind row {rows}, and had more; the rows up to there are \
             published",
            self.name
        );
        Error::new(ErrorKind::Unavailable, message).with_code(Code::SourceUnavailable)
    }

    /// Returns the error of a file that is another one at its end than at its beginning.
    fn changed(&self, change: FileChange, rows: u64) -> Error {
        let name = &self.name;
        let message = match change {
            FileChange::Changed => format!(
                "{name} changed while it was read: its {rows} rows are published as they were found, which is perhaps \
                 neither what was in it before nor what is in it now"
            ),
            FileChange::Replaced => format!(
                "{name} was replaced while it was read: the {rows} rows of the file that had the name before are \
                 published, and none of the one that has it now"
            ),
        };
        Error::new(ErrorKind::Unavailable, message).with_code(Code::SourceUnavailable)
    }

    /// Reads a kept input from its beginning to its end: returns its hash, its length, and the number of its rows, each
    /// of which is one that can be published.
    ///
    /// # Errors
    /// `source-unavailable`; `row-unpublishable`
    pub fn checked(&mut self, target: &str, rules: &RowSelectors) -> Result<CheckedInput> {
        let sought = self.file.seek(SeekFrom::Start(self.start));
        sought.map_err(|error| self.unreadable(error))?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(target.as_bytes());
        hasher.update(b"\0");
        let mut reader = BufReader::with_capacity(BUFFER, &self.file);
        let mut checked = CheckedInput::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = read_line(&mut reader, &mut line).map_err(|error| self.unreadable(error))?;
            if read == 0 {
                break;
            }
            hasher.update(&line);
            checked.rows += 1;
            checked.bytes += read;
            if rules.needs_check(&line) {
                let row = Bytes::copy_from_slice(&line);
                rules.message(&*self, checked.rows, &row)?;
            }
        }
        checked.digest = *hasher.finalize().as_bytes();
        Ok(checked)
    }

    /// Reads the rows behind so many, on a thread of its own. A kept input is read to the length that it had.
    pub fn read(
        mut self,
        rules: RowSelectors,
        checked: Option<CheckedInput>,
        begin: (u64, u64),
    ) -> mpsc::Receiver<Result<Rows>> {
        let (sender, receiver) = mpsc::channel(4);
        // Read in full or not, the thread ends with the process.
        std::thread::spawn(move || {
            if let Err(error) = self.send_rows(&rules, checked, begin, &sender) {
                // The other side may have stopped reading.
                let _ = sender.blocking_send(Err(error));
            }
        });
        receiver
    }

    fn send_rows(
        &mut self,
        rules: &RowSelectors,
        checked: Option<CheckedInput>,
        (mut rows, mut bytes): (u64, u64),
        to: &mpsc::Sender<Result<Rows>>,
    ) -> Result<()> {
        if checked.is_some() {
            let sought = self.file.seek(SeekFrom::Start(self.start + bytes));
            sought.map_err(|error| self.unreadable(error))?;
        }
        let left = checked.map_or(u64::MAX, |it| it.bytes.saturating_sub(bytes));
        let mut reader = BufReader::with_capacity(BUFFER, (&self.file).take(left));
        let mut batch = Rows::default();
        let mut size = 0;
        // Looked for once, behind the last row.
        let mut change = None;
        loop {
            let mut line = Vec::new();
            let found = read_line(&mut reader, &mut line);
            let found = found.map_err(|error| self.broken_off(error, rows));
            let found = found.and_then(|read| {
                let message = match read {
                    0 => None,
                    _ => rules.message(&*self, rows + 1, &line.into())?,
                };
                Ok((read, message))
            });
            let (read, message) = match found {
                Ok(found) => found,
                Err(error) => {
                    // What came before it is published, and known to be.
                    batch.last = rows;
                    batch.mark = checked.map(|it| InputMark {
                        digest: it.digest,
                        rows,
                        bytes,
                        is_whole: false,
                    });
                    let _ = to.blocking_send(Ok(batch));
                    return Err(error);
                }
            };
            let is_end = read == 0;
            if !is_end {
                rows += 1;
                bytes += read;
                size += usize::try_from(read).unwrap_or(usize::MAX);
                match message {
                    Some(message) => batch.messages.push(message),
                    None => batch.blank += 1,
                }
            }
            let is_full = batch.messages.len() >= MOST_ROWS || size >= MOST_BYTES;
            // A pipe that has nothing more for now may not have for long.
            let is_idle = checked.is_none() && reader.buffer().is_empty();
            if is_end || is_full || is_idle {
                let is_read = checked.is_some_and(|it| bytes >= it.bytes);
                if is_read && change.is_none() {
                    change = Some(self.opened.change(&self.file, self.path.as_deref()));
                }
                batch.mark = checked.map(|it| InputMark {
                    digest: it.digest,
                    rows,
                    bytes,
                    is_whole: is_read && change.flatten() != Some(FileChange::Changed),
                });
                batch.last = rows;
                size = 0;
                if to.blocking_send(Ok(std::mem::take(&mut batch))).is_err() {
                    return Ok(());
                }
                if is_end {
                    let is_short = checked.is_some_and(|it| bytes < it.bytes);
                    return match change.flatten() {
                        _ if is_short => Err(self.shortened(rows)),
                        Some(change) => Err(self.changed(change, rows)),
                        None => Ok(()),
                    };
                }
            }
        }
    }
}

/// Reads a line with its end; nothing at the end of the input, or where a line is longer than any message.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<u64> {
    let read = reader
        .by_ref()
        .take(MOST_LINE as u64)
        .read_until(b'\n', line)?;
    if read == MOST_LINE && line.last() != Some(&b'\n') {
        let message = format!("a line has more than {} MiB", MOST_LINE >> 20);
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            message,
        ));
    }
    Ok(read as u64)
}

/// A kept input that was read once.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckedInput {
    /// The hash of its target and its bytes.
    pub digest: [u8; 32],
    /// The number of its rows.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
}

/// Rows that were read together.
#[derive(Debug, Default)]
pub struct Rows {
    /// Their messages.
    pub messages: Vec<ProducerMessage>,
    /// The number of those without anything.
    pub blank: u64,
    /// The number of the last of them in the input.
    pub last: u64,
    /// The progress in a kept input behind them.
    pub mark: Option<InputMark>,
}

/// The selectors of a message.
#[derive(Clone, Debug)]
pub struct RowSelectors {
    /// The selector of the order key.
    pub order: Option<Selector>,
    /// The selector of the id.
    pub id: Option<Selector>,
}

impl RowSelectors {
    /// Tells whether a row may be one that cannot be published.
    fn needs_check(&self, line: &[u8]) -> bool {
        self.order.is_some() || self.id.is_some() || line.len() > MOST_PAYLOAD
    }

    /// Makes a message of a line; nothing of one that is blank.
    fn message(
        &self,
        input: &RowInput,
        number: u64,
        line: &Bytes,
    ) -> Result<Option<ProducerMessage>> {
        let end = line.len() - usize::from(line.ends_with(b"\n"));
        let end = end - usize::from(line[..end].ends_with(b"\r"));
        let payload = line.slice(..end);
        if payload.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let refused = |why: String| {
            let advice = if input.is_kept {
                "correct the line, or leave it out, and publish once more"
            } else {
                "the rows before it are published: correct the line, or leave it out, and send the input again from this \
                 line on"
            };
            let message = format!("{}, line {number}: {why}; {advice}", input.name);
            Error::new(ErrorKind::InvalidInput, message)
                .with_code(Code::RowUnpublishable)
                .not_applied()
        };
        if payload.len() > MOST_PAYLOAD {
            let most = MOST_PAYLOAD >> 20;
            return Err(refused(format!("it has more than {most} MiB")));
        }
        let view = View::new(Message {
            payload: &payload,
            headers: &[],
            coordinates: "",
        });
        let value = |flag: &str, selector: &Option<Selector>| -> Result<Option<Bytes>> {
            let Some(selector) = selector else {
                return Ok(None);
            };
            let selected = view.select(selector);
            let selected = selected.map_err(|why| refused(format!("{flag} {selector}: {why}")))?;
            let bytes = match selected {
                Some(Selected::Text(text) | Selected::Number(text)) => {
                    Bytes::copy_from_slice(text.as_bytes())
                }
                Some(Selected::Bytes(bytes)) => Bytes::copy_from_slice(bytes),
                Some(Selected::Event(source, id)) => format!("{source} {id}").into(),
                Some(Selected::Null | Selected::Bool(_) | Selected::Nested(_)) | None => {
                    let found = selected.map_or("nothing", |it| it.noun());
                    return Err(refused(format!("{flag} {selector} finds {found}")));
                }
            };
            if bytes.is_empty() || bytes.len() > MOST_KEY {
                let why = format!(
                    "{flag} {selector} finds {} bytes, not 1 to {MOST_KEY}",
                    bytes.len()
                );
                return Err(refused(why));
            }
            Ok(Some(bytes))
        };
        let order = value("--order", &self.order)?;
        let id = value("--id", &self.id)?.map(|id| {
            let text = semel_core::ByteString::try_from(id).ok();
            let text = text.filter(|it| !it.contains(char::is_control));
            text.ok_or_else(|| {
                refused("the value of --id is no text, or has control characters".into())
            })
        });
        Ok(Some(ProducerMessage {
            id: id.transpose()?,
            order,
            headers: Vec::new(),
            payload: payload.clone(),
        }))
    }
}

const MOST_ROWS: usize = super::MOST_AT_ONCE as usize;
const MOST_BYTES: usize = 4 << 20;
const MOST_PAYLOAD: usize = 16 << 20;
const MOST_LINE: usize = MOST_PAYLOAD + (1 << 20);
const MOST_KEY: usize = 1_024;
const BUFFER: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn rules(order: &str, id: &str) -> RowSelectors {
        RowSelectors {
            order: order.parse().ok(),
            id: id.parse().ok(),
        }
    }

    #[test]
    fn a_line_is_a_message_with_the_values_of_its_selectors() {
        let rules = rules("json:/customer", "json:/id");
        let line = Bytes::from_static(b"{\"id\": 7, \"customer\": \"a\"}\r\n");
        let message = rules
            .message(&nothing(), 1, &line)
            .expect("a row")
            .expect("one");
        assert_eq!(message.id.as_deref(), Some("7"));
        assert_eq!(message.order.as_deref(), Some(&b"a"[..]));
        assert_eq!(&*message.payload, b"{\"id\": 7, \"customer\": \"a\"}");
        let blank = rules.message(&nothing(), 1, &Bytes::from_static(b" \n"));
        assert_eq!(blank.expect("a row"), None);
    }

    /// An input without rows, which is called x.
    fn nothing() -> RowInput {
        input_of(tempfile::tempfile().expect("a file"))
    }

    fn input_of(file: File) -> RowInput {
        RowInput::begin("x".to_owned(), file, None).expect("an input")
    }

    #[tokio::test]
    async fn a_file_that_was_read_in_part_begins_behind_that() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"header\na\nb\n").expect("written");
        file.seek(SeekFrom::Start(7)).expect("a place");
        let mut input = input_of(file);
        let checked = input.checked("x", &rules("", "")).expect("sound rows");
        assert_eq!((checked.rows, checked.bytes), (2, 4));
        for (begin, expected) in [((0, 0), &["a", "b"][..]), ((1, 2), &["b"])] {
            let file = input.file.try_clone().expect("a file");
            let again = RowInput {
                file,
                name: String::new(),
                path: None,
                ..input
            };
            let mut rows = again.read(rules("", ""), Some(checked), begin);
            let rows = rows.recv().await.expect("rows").expect("sound ones");
            let texts: Vec<_> = rows.messages.iter().map(|it| &*it.payload).collect();
            let expected: Vec<_> = expected.iter().map(|it| it.as_bytes()).collect();
            assert_eq!(texts, expected);
            let mark = rows.mark.expect("a mark");
            assert_eq!((mark.rows, mark.bytes, mark.is_whole), (2, 4, true));
        }
    }

    #[tokio::test]
    async fn a_file_that_changes_or_is_replaced_while_it_is_read_is_told_of() {
        type Change = fn(&Path);
        let change: Change = |path| {
            std::fs::write(path, "a\nB\n").expect("written");
            let file = File::options().write(true).open(path).expect("a file");
            // A clock that is coarse does not hide it.
            file.set_modified(std::time::UNIX_EPOCH).expect("a time");
        };
        let replace: Change = |path| {
            let next = path.with_extension("next");
            std::fs::write(&next, "c\n").expect("written");
            std::fs::rename(&next, path).expect("renamed");
        };
        let remove: Change = |path| std::fs::remove_file(path).expect("removed");
        let none: Change = |_| {};
        for (change, words, is_whole) in [
            (change, Some("changed while it was read"), false),
            (replace, Some("was replaced while it was read"), true),
            (remove, None, true),
            (none, None, true),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("rows");
            std::fs::write(&path, "a\nb\n").expect("written");
            let mut input = RowInput::open(Some(&path)).expect("a file");
            let checked = input.checked("x", &rules("", "")).expect("sound rows");
            change(&path);
            let mut rows = input.read(rules("", ""), Some(checked), (0, 0));
            let read = rows.recv().await.expect("rows").expect("sound ones");
            let mark = read.mark.expect("a mark");
            assert_eq!((read.last, mark.rows, mark.is_whole), (2, 2, is_whole));
            let end = rows
                .recv()
                .await
                .map(|it| it.expect_err("told").to_string());
            let is_as_expected = match (&end, words) {
                (Some(told), Some(words)) => told.contains(words),
                (told, words) => told.is_none() && words.is_none(),
            };
            assert!(is_as_expected, "{words:?}: {end:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_becomes_shorter_ends_with_an_error_and_is_marked_as_far_as_it_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows");
        std::fs::write(&path, "a\nb\nc\n").expect("written");
        let mut input = RowInput::open(Some(&path)).expect("a file");
        let checked = input.checked("x", &rules("", "")).expect("sound rows");
        std::fs::write(&path, "a\nb\n").expect("written");
        let mut rows = input.read(rules("", ""), Some(checked), (0, 0));
        let before = rows.recv().await.expect("rows").expect("sound ones");
        let mark = before.mark.expect("a mark");
        assert_eq!((before.last, mark.bytes, mark.is_whole), (2, 4, false));
        let error = rows.recv().await.expect("an answer").expect_err("short");
        assert_eq!(error.code(), Code::SourceUnavailable);
        assert!(error.to_string().contains("behind row 2"), "{error}");
    }

    #[tokio::test]
    async fn what_comes_before_the_end_of_a_pipe_that_breaks_off_is_handed_over_and_counted() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let input = input_of(File::from(std::os::fd::OwnedFd::from(reader)));
        let written = std::thread::spawn(move || {
            let mut bytes = b"a\nb\n".to_vec();
            bytes.resize(bytes.len() + MOST_LINE + 1, b'c');
            // The reader goes away before the end.
            let _ = writer.write_all(&bytes);
        });
        let mut rows = input.read(rules("", ""), None, (0, 0));
        let (mut count, mut last) = (0, 0);
        let error = loop {
            match rows.recv().await.expect("an answer") {
                Ok(rows) => (count, last) = (count + rows.messages.len(), rows.last),
                Err(error) => break error,
            }
        };
        assert_eq!((count, last), (2, 2));
        assert!(error.to_string().ends_with("from line 3 on"), "{error}");
        written.join().expect("no panic");
    }

    #[tokio::test]
    async fn what_comes_before_a_row_that_turned_bad_is_marked_as_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows");
        std::fs::write(&path, "{\"id\":1}\n\n{\"id\":3}\n").expect("written");
        let mut input = RowInput::open(Some(&path)).expect("a file");
        let rules = rules("", "json:/id");
        let checked = input.checked("x", &rules).expect("sound rows");
        // Somebody changes it between the check and the reading.
        std::fs::write(&path, "{\"id\":1}\n\n{\"di\":3}\n").expect("written");
        let mut rows = input.read(rules, Some(checked), (0, 0));
        let before = rows.recv().await.expect("rows").expect("sound ones");
        let mark = before.mark.expect("a mark");
        assert_eq!((before.last, mark.rows, mark.bytes), (2, 2, 10));
        assert!(!mark.is_whole);
        let error = rows.recv().await.expect("an answer").expect_err("bad");
        assert_eq!(error.code(), Code::RowUnpublishable);
    }

    #[test]
    fn a_row_without_a_value_is_refused_with_its_line() {
        let rules = rules("json:/customer", "");
        for (line, words) in [
            (
                "{\"id\": 7}",
                "line 9: --order json:/customer finds nothing",
            ),
            ("{\"customer\": null}", "finds"),
            ("{\"customer\": {}}", "finds"),
            ("{\"customer\": \"\"}", "0 bytes"),
            ("no json", "line 9: --order json:/customer"),
        ] {
            let error = rules.message(&nothing(), 9, &line.into()).expect_err(line);
            assert_eq!(error.code(), Code::RowUnpublishable);
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
