//! The file in which tokens are kept: JSON, for its owner alone, and never half written.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Gid, Uid, fchown, flock};
use semel_core::birth::millis_of_text;
use semel_core::{Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Proof, Token, Tokens};
use crate::caller::{Role, Tenant};

/// A file of tokens, which need not be there.
#[derive(Clone, Debug)]
pub struct TokenFile(PathBuf);

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    tokens: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Box<str>,
    role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<Tenant>,
    created: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blake3: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<Box<str>>,
}

impl TokenFile {
    /// The file at this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the tokens. A file that is not there has none.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: it cannot be read, or it is damaged.
    pub fn read(&self) -> Result<Tokens> {
        self.parse(&self.bytes()?)
    }

    /// Adds a token; returns false, and changes nothing, if there is one of this name.
    ///
    /// # Errors
    ///
    /// Those of reading; `Unavailable`: it cannot be written.
    pub fn add(&self, token: Token) -> Result<bool> {
        self.change(|tokens| {
            let is_new = tokens.0.iter().all(|known| known.name != token.name);
            if is_new {
                tokens.0.push(token);
            }
            is_new
        })
    }

    /// Removes the token of this name; returns false if there is none.
    ///
    /// # Errors
    ///
    /// Those of reading; `Unavailable`: it cannot be written.
    pub fn remove(&self, name: &str) -> Result<bool> {
        self.change(|tokens| {
            let before = tokens.0.len();
            tokens.0.retain(|token| *token.name != *name);
            tokens.0.len() < before
        })
    }

    /// The bytes of the file; none if it is not there.
    pub(super) fn bytes(&self) -> Result<Vec<u8>> {
        match fs::read(&self.0) {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(self.invalid("cannot be read").with_source(error)),
        }
    }

    /// Reads the tokens from the bytes of the file.
    pub(super) fn parse(&self, bytes: &[u8]) -> Result<Tokens> {
        if bytes.is_empty() {
            return Ok(Tokens::default());
        }
        let document: Document = serde_json::from_slice(bytes)
            .map_err(|error| self.invalid("is damaged").with_source(error))?;
        if document.version != VERSION {
            let version = document.version;
            return Err(self.invalid(&format!(
                "has version {version}; this release knows {VERSION}"
            )));
        }
        let mut tokens = Vec::with_capacity(document.tokens.len());
        for entry in document.tokens {
            let name = entry.name.clone();
            let token = entry
                .token()
                .ok_or_else(|| self.invalid(&format!("is damaged: token `{name}`")))?;
            if tokens.iter().any(|known: &Token| known.name == token.name) {
                return Err(self.invalid(&format!("is damaged: two tokens are called `{name}`")));
            }
            tokens.push(token);
        }
        Ok(Tokens(tokens))
    }

    /// Changes the tokens, if `change` says that it did, while no other process does.
    fn change(&self, change: impl FnOnce(&mut Tokens) -> bool) -> Result<bool> {
        // A link stays one.
        let path = fs::canonicalize(&self.0).unwrap_or_else(|_| self.0.clone());
        let folder = path
            .parent()
            .filter(|folder| *folder != Path::new(""))
            .unwrap_or(Path::new("."));
        let folder = File::open(folder).map_err(|error| self.unwritten(error))?;
        // The file itself is replaced by each change, so the folder is what stays the same. Some network file systems
        // lock no folder; two changes at once can undo each other there.
        let _ = flock(&folder, FlockOperation::LockExclusive);
        let mut tokens = self.read()?;
        if !change(&mut tokens) {
            return Ok(false);
        }
        let document = Document {
            version: VERSION,
            tokens: tokens.iter().map(Entry::of).collect(),
        };
        let mut text = serde_json::to_vec_pretty(&document)
            .map_err(|error| self.unwritten(io::Error::other(error)))?;
        text.push(b'\n');
        replace(&path, &text)
            .and_then(|()| folder.sync_all())
            .map_err(|error| self.unwritten(error))?;
        Ok(true)
    }

    fn invalid(&self, why: &str) -> Error {
        let message = format!("the file of tokens {} {why}", self.0.display());
        Error::new(ErrorKind::InvalidConfig, message)
    }

    fn unwritten(&self, error: io::Error) -> Error {
        let message = format!("the file of tokens {} cannot be written", self.0.display());
        Error::new(ErrorKind::Unavailable, message).with_source(error)
    }
}

/// Writes a file beside `path` and puts it in its place once it is on disk. It has the owner, the group and the mode of
/// the one that it replaces; of a new one, only its owner can read it.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| *folder != Path::new(""))
        .unwrap_or(Path::new("."));
    let mut beside = tempfile::Builder::new()
        .prefix(".semel-tokens")
        .tempfile_in(folder)?;
    match fs::metadata(path) {
        Ok(replaced) => keep_owner(beside.as_file(), &replaced).map_err(|error| {
            let why =
                format!("its owner, group and mode cannot be kept, so it stays as it is: {error}");
            io::Error::new(error.kind(), why)
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    beside.write_all(text)?;
    beside.as_file().sync_all()?;
    beside.persist(path)?;
    Ok(())
}

/// Gives a file the owner, the group and the mode of another one.
fn keep_owner(file: &File, other: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    let uid = (own.uid() != other.uid()).then(|| Uid::from_raw(other.uid()));
    let gid = (own.gid() != other.gid()).then(|| Gid::from_raw(other.gid()));
    if uid.is_some() || gid.is_some() {
        fchown(file, uid, gid)?;
    }
    file.set_permissions(other.permissions())
}

impl Entry {
    fn of(token: &Token) -> Self {
        let text = |at: Timestamp| at.to_string().into();
        let (blake3, subject) = match &token.proof {
            Proof::Secret(hash) => (Some(hash.to_hex().as_str().into()), None),
            Proof::Subject(subject) => (None, Some(subject.clone())),
        };
        Self {
            name: token.name.clone(),
            role: token.role,
            tenant: token.tenant.clone(),
            created: text(token.created),
            expires: token.expires.map(text),
            blake3,
            subject,
        }
    }

    /// The token; nothing if a time or the hash is none, or if it has neither a hash nor a subject, or both.
    fn token(self) -> Option<Token> {
        let time = |text: &str| millis_of_text(text).map(Timestamp::from_millis);
        let expires = match self.expires {
            Some(text) => Some(time(&text)?),
            None => None,
        };
        let proof = match (self.blake3, self.subject) {
            (Some(hash), None) => Proof::Secret(blake3::Hash::from_hex(hash.as_bytes()).ok()?),
            (None, Some(subject)) if !subject.is_empty() => Proof::Subject(subject),
            (None | Some(_), None | Some(_)) => return None,
        };
        Some(Token {
            name: self.name,
            role: self.role,
            tenant: self.tenant,
            created: time(&self.created)?,
            expires,
            proof,
        })
    }
}

const VERSION: u32 = 1;
