//! Claims that are not gated by a version: one call where nothing is in the way, then compare and set.
//!
//! One script inserts absent records, each row with a token of its own, and reads the existing ones, under the locks
//! that the insertion took. A row is this call's own if its token is of the block that it drew. The other rows are
//! decided here and written on the condition that their revision still stands. The loser of such a race asks again.
//! Nobody holds a lock while it thinks.
//!
//! # Guarantee   those of `claim`; BAT-2

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use semel_core::ledger::{Found, Ledger, first_revision};
use semel_core::{Admission, ClaimRequest, FencingToken, OpId, Result, Timestamp};

use crate::answer::{Set, number, only, time};
use crate::error::{Failure, IS_NULL, SEVERAL_ROWS, contended};
use crate::parts::parts;
use crate::pool::PooledConnection;
use crate::row::{self, push_assignments, push_claim, young_until};
use crate::script::{Literal, Script};
use crate::session::{Session, pause};
use crate::tokens;
use crate::transaction::{end, run_through};

/// Decides every claim. An error of a later part of a long batch is that of its items alone.
pub(crate) async fn claim(session: &Session, batch: &[ClaimRequest]) -> Result<Vec<Admission>> {
    let mut answers = Vec::with_capacity(batch.len());
    let weight = |request: &ClaimRequest| {
        let transport = request.transport.as_ref().map_or(0, bytes::Bytes::len);
        request.operation.key.as_bytes().len() + transport
    };
    for part in parts(batch, weight) {
        let mut connection = session.connection().await?;
        let mut claims = Claims::new(session, part);
        let done = claims.decide(&mut connection).await;
        end(session, connection).await;
        match done {
            Ok(()) => answers.extend(claims.finish()),
            Err(error) if answers.is_empty() => return Err(error),
            Err(error) => answers.extend(part.iter().map(|_| Admission::Failed(error.clone()))),
        }
    }
    Ok(answers)
}

/// One batch in progress.
struct Claims<'b> {
    session: &'b Session,
    batch: &'b [ClaimRequest],
    ids: Vec<OpId>,
    answers: Vec<Option<Admission>>,
    /// Places of items that have no answer yet, in order.
    open: Vec<usize>,
    /// Keys whose message was too old to be new at the last look.
    old: HashSet<OpId>,
    /// Tokens to draw for takeovers, and the token that they must exceed.
    extra: usize,
    above: u64,
}

/// Findings of one round.
struct Round {
    ledger: Ledger,
    /// Keys that this call has inserted, with their tokens.
    inserted: HashMap<OpId, FencingToken>,
    /// Tokens for takeovers.
    spares: Vec<FencingToken>,
    /// The highest token of the existing records, and the first token drawn.
    highest: u64,
    first: Option<u64>,
}

impl<'b> Claims<'b> {
    fn new(session: &'b Session, batch: &'b [ClaimRequest]) -> Self {
        Self {
            session,
            batch,
            ids: batch.iter().map(|request| request.operation.id()).collect(),
            answers: vec![None; batch.len()],
            open: (0..batch.len()).collect(),
            old: HashSet::new(),
            extra: 0,
            above: 0,
        }
    }

    async fn decide(&mut self, connection: &mut PooledConnection) -> Result<()> {
        for round in 0..ROUNDS {
            if self.open.is_empty() {
                break;
            }
            if round >= PATIENT {
                pause(round - PATIENT + 1).await;
            }
            self.round(connection, round == 0).await?;
        }
        Ok(())
    }

    fn finish(self) -> impl Iterator<Item = Admission> {
        let answer =
            |answer: Option<Admission>| answer.unwrap_or_else(|| Admission::Failed(contended()));
        self.answers.into_iter().map(answer)
    }

    async fn round(&mut self, connection: &mut PooledConnection, is_first: bool) -> Result<()> {
        let keys = self.keys();
        // A key that comes again may take over the claim just inserted for it, with a later token.
        self.extra += self.open.len() - keys.len();
        let fresh = self.fresh(&keys, is_first);
        let Some(sets) = self.ask(connection, &keys, &fresh).await? else {
            return Ok(());
        };
        let mut round = self.read(&sets, &keys, &fresh)?;
        if is_first && keys.len() >= MANY {
            self.learn(&round, &keys);
        }
        let (granted, again) = self.answer(&mut round);
        self.write(connection, &round.ledger, &granted, again)
            .await?;
        self.trim(connection, round.first).await;
        Ok(())
    }

    /// Returns the first open item of each key, in the order of the ids.
    fn keys(&self) -> Vec<usize> {
        let mut keys = self.open.clone();
        keys.sort_by_key(|item| (self.ids[*item], *item));
        keys.dedup_by_key(|item| self.ids[*item]);
        keys
    }

    /// Returns those of the keys that are to be inserted if they are absent.
    fn fresh(&mut self, keys: &[usize], is_first: bool) -> Vec<usize> {
        let expects_duplicates = self.session.expects_duplicates.load(Ordering::Relaxed);
        if is_first && expects_duplicates && keys.len() >= MANY {
            return Vec::new();
        }
        self.age(keys, self.session.last_now());
        let is_fresh = |item: &usize| !self.old.contains(&self.ids[*item]);
        keys.iter().copied().filter(is_fresh).collect()
    }

    /// Notes which of these keys belong to messages that are too old at `now`.
    fn age(&mut self, keys: &[usize], now: Timestamp) {
        for item in keys {
            if young_until(&self.batch[*item]).is_some_and(|until| until < now) {
                self.old.insert(self.ids[*item]);
            }
        }
    }

    /// Asks the server. Returns `None` where an insertion came too late, for its token or for the age gate, because it
    /// had to wait: a record was there before and is gone. Nothing was written then.
    async fn ask(
        &mut self,
        connection: &mut PooledConnection,
        keys: &[usize],
        fresh: &[usize],
    ) -> Result<Option<Sets>> {
        let mut tries = 0;
        loop {
            let (script, places) = self.script(keys, fresh);
            let failure = match connection.run(&script).await {
                Ok(sets) => {
                    connection.ended();
                    return Ok(Some(Sets { sets, places }));
                }
                Err(failure) => failure,
            };
            let code = failure.refusal().map(|error| error.code);
            if code.is_some() && connection.is_open() {
                self.roll_back(connection).await?;
            }
            match code {
                Some(IS_NULL) if Some(failure.at) == places.claim => {
                    self.see_age(connection, fresh).await?;
                    return Ok(None);
                }
                Some(SEVERAL_ROWS) if Some(failure.at) == places.in_time => return Ok(None),
                Some(_) if failure.may_pass(tries) => {
                    tries += 1;
                    pause(tries).await;
                }
                Some(_) if failure.at < places.commit => return Err(failure.uncommitted()),
                Some(_) | None => return Err(failure.of_commit()),
            }
        }
    }

    fn script(&self, keys: &[usize], fresh: &[usize]) -> (Script, Places) {
        let (session, texts) = (self.session, &self.session.texts);
        let mut script = Script::default();
        session.add_now(&mut script);
        script.add(&texts.begin, &[]);
        if self.above > 0 {
            tokens::raise(&session.texts, &mut script, self.above);
        }
        tokens::draw(&session.texts, &mut script, fresh.len() + self.extra);
        let (mut claim, mut in_time) = (None, None);
        if !fresh.is_empty() {
            // One guard for all: the first row cannot be written once any message is too old.
            let young = fresh
                .iter()
                .filter_map(|item| young_until(&self.batch[*item]));
            let until = young.min();
            let guard = until.map(|until| format!("IF(@semel.now>{},NULL,1)", until.as_millis()));
            let mut rows = Literal::default();
            for (place, item) in fresh.iter().enumerate() {
                let attempts = guard.as_deref().filter(|_| place == 0).unwrap_or("1");
                let token = format!("@semel.token+{place}");
                rows.comma();
                rows.push_code("(");
                push_claim(
                    &mut rows,
                    &self.ids[*item],
                    &self.batch[*item],
                    &token,
                    attempts,
                );
                rows.push_code(")");
            }
            claim = Some(script.add(&texts.claim, &[&rows]));
            let until = until.map_or(u64::MAX, Timestamp::as_millis);
            let values = [&session.given_now(), &Literal::number(until)];
            in_time = Some(script.add(&texts.in_time, &values));
        }
        let drawn = script.add(&texts.drawn, &[]);
        let wanted = self.open.iter().any(|item| self.batch[*item].wants_outcome);
        let wanted = Literal::number(wanted.into());
        let ids = Literal::list(keys.iter().map(|item| self.ids[*item].as_bytes()));
        let read = if fresh.is_empty() {
            script.add(&texts.read, &[&wanted, &wanted, &ids])
        } else {
            let taken = Literal::number(fresh.len() as u64);
            script.add(&texts.others, &[&wanted, &wanted, &ids, &taken])
        };
        let commit = script.add(&texts.commit, &[]);
        let places = Places {
            claim,
            in_time,
            drawn,
            read,
            commit,
        };
        (script, places)
    }

    async fn roll_back(&self, connection: &mut PooledConnection) -> Result<()> {
        let mut script = Script::default();
        script.add(&self.session.texts.rollback, &[]);
        connection
            .run(&script)
            .await
            .map_err(Failure::uncommitted)?;
        connection.ended();
        Ok(())
    }

    /// Finds out which messages are too old by now.
    async fn see_age(&mut self, connection: &mut PooledConnection, fresh: &[usize]) -> Result<()> {
        let mut script = Script::default();
        self.session.add_now(&mut script);
        let place = script.add(&self.session.texts.time, &[]);
        let sets = connection
            .run(&script)
            .await
            .map_err(Failure::uncommitted)?;
        connection.ended();
        let now = time(only(&sets[place])?, 0)?;
        self.session.saw(now);
        let before = self.old.len();
        self.age(fresh, now);
        if self.old.len() == before {
            // A clock that went back. Messages that may be too old are only read; the decision tells.
            self.age(fresh, Timestamp::from_millis(u64::MAX));
        }
        Ok(())
    }

    fn read(&self, answer: &Sets, keys: &[usize], fresh: &[usize]) -> Result<Round> {
        let row = only(&answer.sets[answer.places.drawn])?;
        let now = time(row, 0)?;
        self.session.saw(now);
        let first = number(row, 1)?;
        let mut found = HashMap::with_capacity(keys.len());
        for row in &answer.sets[answer.places.read].rows {
            let (id, record) = row::found(row)?;
            found.insert(id, record);
        }
        let mut round = Round {
            ledger: Ledger::new(now),
            inserted: HashMap::with_capacity(fresh.len()),
            spares: Vec::new(),
            highest: 0,
            first,
        };
        round.ledger.reserve(keys.len());
        let recurring = self.recurring(keys);
        for (token, item) in (first.unwrap_or(0)..).zip(fresh) {
            let (id, token) = (self.ids[*item], FencingToken::new(token));
            // Under the locks of the insertion, a row that is not another call's is this call's own.
            if found.contains_key(&id) {
                round.spares.push(token);
                continue;
            }
            round.inserted.insert(id, token);
            if recurring.contains(&id) {
                round.highest = round.highest.max(token.get());
            }
        }
        let beyond = first.map_or(0, |first| first + fresh.len() as u64);
        let more = (beyond..).take(first.map_or(0, |_| self.extra));
        round.spares.extend(more.map(FencingToken::new));
        for item in keys {
            let id = self.ids[*item];
            let record = found.remove(&id).unwrap_or(Found::Absent);
            if let Found::Record(_, record) = &record {
                round.highest = round.highest.max(record.token.get());
            }
            round.ledger.found(id, &self.batch[*item].operation, record);
        }
        // A token that was overtaken on its way is of no use for a takeover.
        round.spares.retain(|token| token.get() > round.highest);
        Ok(round)
    }

    /// Returns the keys that are open more than once.
    fn recurring(&self, keys: &[usize]) -> HashSet<OpId> {
        if keys.len() == self.open.len() {
            return HashSet::new();
        }
        let mut seen = HashSet::with_capacity(self.open.len());
        let ids = self.open.iter().map(|item| self.ids[*item]);
        ids.filter(|id| !seen.insert(*id)).collect()
    }

    /// Notes whether the next batch is better read first.
    fn learn(&self, round: &Round, keys: &[usize]) {
        let known = keys
            .iter()
            .filter(|item| round.ledger.record(self.ids[**item]).is_some());
        let expects = known.count() * 10 >= keys.len() * 9;
        self.session
            .expects_duplicates
            .store(expects, Ordering::Relaxed);
    }

    /// Decides the items that can be decided; returns those that are granted and stored, and those that are still open.
    fn answer(&mut self, round: &mut Round) -> (HashSet<usize>, Vec<usize>) {
        let mut granted = HashSet::with_capacity(round.inserted.len());
        for item in &self.open {
            let id = self.ids[*item];
            // With its own token, before any other item draws on the others.
            if let Some(token) = round.inserted.remove(&id) {
                let mut drawn = std::iter::once(token);
                self.answers[*item] = round.ledger.claim(id, &self.batch[*item], &mut drawn);
                round.ledger.wrote(id, first_revision(token));
                granted.insert(*item);
            }
        }
        let mut again = Vec::new();
        let mut left = HashSet::new();
        let mut spares = round.spares.iter().copied();
        self.extra = 0;
        for item in self.open.iter().copied() {
            if self.answers[item].is_some() {
                continue;
            }
            let (id, request) = (self.ids[item], &self.batch[item]);
            let is_absent = round.ledger.record(id).is_none() && !round.ledger.is_damaged(id);
            if is_absent && !is_too_old(request, round.ledger.now()) {
                // An absent record is inserted with its claim, or not at all.
                self.old.remove(&id);
                left.insert(id);
            }
            if !left.contains(&id) {
                self.answers[item] = round.ledger.claim(id, request, &mut spares);
                self.extra += usize::from(self.answers[item].is_none());
            }
            if self.answers[item].is_none() {
                left.insert(id);
                again.push(item);
            }
        }
        let overtaken = round.first.is_some_and(|first| first <= round.highest);
        self.above = if overtaken && self.extra > 0 {
            round.highest
        } else {
            0
        };
        (granted, again)
    }

    /// Writes the decisions. Items of keys that another process has written meanwhile stay open, beside those of
    /// `again`; an item that was `granted` by its insertion stays granted, whatever became of it since.
    async fn write(
        &mut self,
        connection: &mut PooledConnection,
        ledger: &Ledger,
        granted: &HashSet<usize>,
        mut again: Vec<usize>,
    ) -> Result<()> {
        let texts = &self.session.texts;
        let mut changes: Vec<_> = ledger.changes().collect();
        changes.sort_unstable_by_key(|entry| entry.id);
        let mut script = Script::default();
        let mut places = Vec::with_capacity(changes.len());
        script.add(&texts.begin, &[]);
        for entry in &changes {
            let id = Literal::bytes(entry.id.as_bytes());
            // A claim never removes a record, and inserts none that was not inserted above.
            let (Some(revision), Some(record)) = (entry.revision, &entry.record) else {
                continue;
            };
            let mut set = Literal::default();
            push_assignments(&mut set, record);
            let values = [&set, &id, &Literal::number(revision)];
            places.push((entry.id, script.add(&texts.update, &values)));
        }
        script.add(&texts.commit, &[]);
        let mut lost = HashSet::new();
        if !places.is_empty() {
            let sets = run_through(self.session, connection, &script).await?;
            let is_lost = |(_, place): &&(OpId, usize)| sets[*place].affected == 0;
            lost.extend(places.iter().filter(is_lost).map(|(id, _)| *id));
        }
        if !lost.is_empty() {
            for item in &self.open {
                if lost.contains(&self.ids[*item]) && !granted.contains(item) {
                    self.answers[*item] = None;
                    again.push(*item);
                }
            }
            again.sort_unstable();
            again.dedup();
        }
        self.open = again;
        Ok(())
    }

    /// Removes old blocks of tokens, now and then. If that fails, the next call does it.
    async fn trim(&self, connection: &mut PooledConnection, token: Option<u64>) {
        let drawn = self.session.drawn.fetch_add(1, Ordering::Relaxed);
        if let (Some(token), true) = (token, drawn % TRIM_EVERY == TRIM_EVERY - 1) {
            let mut script = Script::default();
            tokens::trim(&self.session.texts, &mut script, token);
            if connection.run(&script).await.is_ok() {
                connection.ended();
            }
        }
    }
}

/// Results, and the places of their parts.
struct Sets {
    sets: Vec<Set>,
    places: Places,
}

#[derive(Clone, Copy)]
struct Places {
    claim: Option<usize>,
    in_time: Option<usize>,
    drawn: usize,
    read: usize,
    commit: usize,
}

fn is_too_old(request: &ClaimRequest, now: Timestamp) -> bool {
    let window = request.window;
    request
        .birth
        .is_some_and(|birth| window.is_too_old(birth, now))
}

/// Rounds after which an item that is still open has failed.
const ROUNDS: u32 = 32;
/// Round from which on a caller waits a little before it asks again.
const PATIENT: u32 = 4;
/// Number of keys from which on a batch of duplicates is expected after one.
const MANY: usize = 32;
/// Blocks drawn between two look-ups of old ones.
const TRIM_EVERY: u64 = 256;
