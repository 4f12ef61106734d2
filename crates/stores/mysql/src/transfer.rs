//! Everything out, page by page, and items of another store in.

mod incoming;

use bytes::Bytes;
use semel_core::port::store::{Listed, Page};
use semel_core::port::transfer::{ExportPage, Item};
use semel_core::{Error, ErrorKind, FencingToken, Mark, OpId, Result};

use crate::answer::{id, key, only, scope, some_number, text, time};
use crate::error::corrupt;
use crate::locked::entity_record;
use crate::row::{self, ID};
use crate::script::{Literal, Script};
use crate::session::Session;
use crate::{audit, parked, tokens};

pub(crate) use self::incoming::Import;

/// Returns a page of everything. Each kind of a page is one snapshot.
pub(crate) async fn export(
    session: &Session,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Page<Item>> {
    let mut page = Exported {
        session,
        page: ExportPage::new(limit),
    };
    let mut position = if let Some(cursor) = after {
        Cursor::from_cursor(cursor)?
    } else {
        let mut script = Script::default();
        let asked = tokens::ask_last(&session.texts, &mut script, false);
        let sets = session.ask(&script).await?;
        let token = FencingToken::new(tokens::last(&sets[asked])?);
        page.page.items.push(Item::Token(token));
        Cursor::Records(None)
    };
    loop {
        let room = page.page.room(position.at_once());
        if room == 0 {
            break;
        }
        match page
            .fill(&position, room)
            .await?
            .or_else(|| position.next_kind())
        {
            Some(next) => position = next,
            None => {
                return Ok(Page {
                    items: page.page.items,
                    next: None,
                });
            }
        }
    }
    Ok(Page {
        items: page.page.items,
        next: Some(position.to_cursor()),
    })
}

/// A page in the making.
struct Exported<'s> {
    session: &'s Session,
    page: ExportPage,
}

impl Exported<'_> {
    /// Adds up to `room` items behind `position`, of its kind; returns where to continue, if there may be more
    /// of it.
    async fn fill(&mut self, position: &Cursor, room: usize) -> Result<Option<Cursor>> {
        match position {
            Cursor::Records(after) => self.fill_records(after.as_ref(), room).await,
            Cursor::Entities(after) => self.fill_entities(after.as_ref(), room).await,
            Cursor::Marks(after) => self.fill_marks(after.as_deref(), room).await,
            Cursor::Parked(after) => {
                let conditions = Literal::code(format!("seq > {after}"));
                let (messages, next) = parked::page(self.session, &conditions, room).await?;
                let messages = messages.into_iter().map(|it| Item::Parked(Box::new(it)));
                self.page.items.extend(messages);
                Ok(next.map(Cursor::Parked))
            }
            Cursor::Audit(after) => {
                let conditions = Literal::code(format!("seq > {after}"));
                let (entries, next) = audit::page(self.session, &conditions, room).await?;
                let entries = entries.into_iter().map(|it| Item::Audited(Box::new(it)));
                self.page.items.extend(entries);
                Ok(next.map(Cursor::Audit))
            }
        }
    }

    async fn fill_records(&mut self, after: Option<&OpId>, room: usize) -> Result<Option<Cursor>> {
        let session = self.session;
        let mut script = Script::default();
        session.add_now(&mut script);
        let told = script.add(&session.texts.time, &[]);
        // An empty string is before every id.
        let after = Literal::bytes(after.map_or(&[], |id| &id.as_bytes()[..]));
        let most = Literal::number(room as u64);
        let read = script.add(&session.texts.export, &[&after, &most]);
        let sets = session.ask_patiently(&script).await?;
        let now = time(only(&sets[told])?, 0)?;
        let rows = &sets[read].rows;
        for row in rows {
            let record = row::read(row)?;
            if !record.is_forgotten(now) {
                let operation = row::operation(row)?;
                self.page
                    .items
                    .push(Item::Record(Box::new(Listed { operation, record })));
            }
        }
        let last = rows.last().filter(|_| rows.len() >= room);
        Ok(last
            .map(|row| id(row, ID))
            .transpose()?
            .map(|id| Cursor::Records(Some(id))))
    }

    async fn fill_entities(&mut self, after: Option<&OpId>, room: usize) -> Result<Option<Cursor>> {
        let mut script = Script::default();
        let after = Literal::bytes(after.map_or(&[], |id| &id.as_bytes()[..]));
        let most = Literal::number(room as u64);
        script.add(&self.session.texts.entity_export, &[&after, &most]);
        let sets = self.session.ask_patiently(&script).await?;
        let rows = &sets[0].rows;
        for row in rows {
            let scope = scope(row, 4)?.ok_or_else(|| corrupt("scope"))?;
            let entity = key(row, 6)?.ok_or_else(|| corrupt("entity"))?;
            self.page
                .items
                .push(Item::Entity(scope, entity, entity_record(row)?));
        }
        let last = rows.last().filter(|_| rows.len() >= room);
        Ok(last
            .map(|row| id(row, 0))
            .transpose()?
            .map(|id| Cursor::Entities(Some(id))))
    }

    async fn fill_marks(&mut self, after: Option<&str>, room: usize) -> Result<Option<Cursor>> {
        let mut conditions = Literal::code("1");
        if let Some(after) = after {
            conditions.push_code(" AND name > ");
            conditions.push_bytes(after.as_bytes());
        }
        let mut script = Script::default();
        let most = Literal::number(room as u64);
        script.add(&self.session.texts.mark_export, &[&conditions, &most]);
        let sets = self.session.ask_patiently(&script).await?;
        let rows = &sets[0].rows;
        let mut last = None;
        for row in rows {
            let name = text(row, 0)?.ok_or_else(|| corrupt("mark"))?;
            let value = some_number(row, 1)?;
            self.page.items.push(Item::Mark(Mark {
                name: name.into(),
                value,
            }));
            last = Some(Cursor::Marks(Some(name.into())));
        }
        Ok(last.filter(|_| rows.len() >= room))
    }
}

/// Contents of a cursor: the next item is of this kind and behind this one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cursor {
    Records(Option<OpId>),
    Entities(Option<OpId>),
    Marks(Option<Box<str>>),
    Parked(u64),
    Audit(u64),
}

impl Cursor {
    /// The most items that are read at once from here: any of them may be large, and a page cannot say no to one that was
    /// read.
    const fn at_once(&self) -> usize {
        match self {
            Self::Records(_) => RECORDS_AT_ONCE,
            Self::Parked(_) => MESSAGES_AT_ONCE,
            Self::Entities(_) | Self::Marks(_) | Self::Audit(_) => usize::MAX,
        }
    }

    /// The beginning of the kind that comes after this one.
    fn next_kind(&self) -> Option<Self> {
        match self {
            Self::Records(_) => Some(Self::Entities(None)),
            Self::Entities(_) => Some(Self::Marks(None)),
            Self::Marks(_) => Some(Self::Parked(0)),
            Self::Parked(_) => Some(Self::Audit(0)),
            Self::Audit(_) => None,
        }
    }

    fn to_cursor(&self) -> Bytes {
        let of_id = |id: &Option<OpId>| id.map_or_else(Vec::new, |id| id.as_bytes().to_vec());
        let (kind, after) = match self {
            Self::Records(id) => (b'r', of_id(id)),
            Self::Entities(id) => (b'e', of_id(id)),
            Self::Marks(None) => (b'm', Vec::new()),
            Self::Marks(Some(name)) => (b'n', name.as_bytes().to_vec()),
            Self::Parked(seq) => (b'p', seq.to_be_bytes().to_vec()),
            Self::Audit(seq) => (b'a', seq.to_be_bytes().to_vec()),
        };
        let mut cursor = vec![CURSOR, kind];
        cursor.extend(after);
        cursor.into()
    }

    fn from_cursor(cursor: &[u8]) -> Result<Self> {
        Self::read(cursor).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidInput,
                "the cursor is not one of an export of this store",
            )
        })
    }

    fn read(cursor: &[u8]) -> Option<Self> {
        let [CURSOR, kind, after @ ..] = cursor else {
            return None;
        };
        let seq = || after.try_into().ok().map(u64::from_be_bytes);
        let id = || match after {
            [] => Some(None),
            id => id.try_into().ok().map(|id| Some(OpId::from_bytes(id))),
        };
        match kind {
            b'r' => id().map(Self::Records),
            b'e' => id().map(Self::Entities),
            b'm' if after.is_empty() => Some(Self::Marks(None)),
            b'n' => {
                let name = std::str::from_utf8(after).ok()?;
                Some(Self::Marks(Some(name.into())))
            }
            b'p' => seq().map(Self::Parked),
            b'a' => seq().map(Self::Audit),
            _ => None,
        }
    }
}

/// Records that are read at once.
const RECORDS_AT_ONCE: usize = 128;
/// Messages that are read at once.
const MESSAGES_AT_ONCE: usize = 8;
/// The first byte of every cursor.
const CURSOR: u8 = 0xe5;
