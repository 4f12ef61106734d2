//! The inbox: a record in the transaction of a user's own connection.

use std::fmt;
use std::sync::Arc;

use mysql_async::Transaction;
use semel_core::ledger::{Found, Ledger, first_revision};
use semel_core::{
    Admission, Claim, ClaimRequest, Clock, EntityRecord, Error, ErrorKind, FencingToken, OpId,
    Outcome, Result, Settled, Settlement, VersionGate, Window,
};

use crate::answer::{Cells, number, only_of, time};
use crate::config;
use crate::driver::Driver;
use crate::error::contended;
use crate::locked::{entity_columns, entity_record, push_entity};
use crate::row::{self, push_assignments, push_claim, young_until};
use crate::run::Runs;
use crate::script::{Literal, Script};
use crate::session::given_now;
use crate::sql::Texts;
use crate::tokens;
use crate::user_connection::UserConnection;

/// Admits and completes operations within transactions that the user begins and commits, on the user's
/// own connection to the store's database.
///
/// *Inline* (A1): admit, change, complete and commit in one transaction. *Leased* (A2), where the work
/// takes long: admit and commit; later, in a second transaction, change, complete and commit. A
/// completion whose claim was lost is [`Settled::Fenced`]: it has touched nothing, and the user rolls
/// back.
///
/// The connection must be one to the database that the store's url names. Its isolation level may be any: decisions
/// rest on rows that are read under locks, as they stand now. With `READ COMMITTED`, transactions are in each other's
/// way the least. A deadlock or a lock that does not come free is reported as `throttled`: roll back and try again.
///
/// Cancel safety: dropping a future leaves the transaction in an unknown state; roll it back.
///
/// ```no_run
/// # use semel_core::{Admission, ClaimId, ClaimRequest, Key, Outcome, Scope, Settled, Window};
/// # use semel_store_mysql::{MysqlStore, Options};
/// # use semel_store_mysql::mysql_async::{Conn, Opts, TxOpts, prelude::Queryable};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "mysql://shop@127.0.0.1/shop";
/// let inbox = MysqlStore::connect(url, Options::default()).await?.inbox();
/// let mut connection = Conn::new(Opts::from_url(url)?).await?;
///
/// let mut transaction = connection.start_transaction(TxOpts::default()).await?;
/// let scope = Scope::new("", "payments")?;
/// let request = ClaimRequest::new(scope, Key::parse("pay-1")?, ClaimId::from_u128(7));
/// if let Admission::Granted(claim) = inbox.admit(&mut transaction, &request).await? {
///     transaction.query_drop("INSERT INTO payments VALUES ('pay-1', 100)").await?;
///     let settled = inbox.complete(&mut transaction, &claim, Outcome::empty(), Window::DEFAULT).await?;
///     assert!(matches!(settled, Settled::Now(_)));
/// }
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InboxSteps {
    texts: Arc<Texts>,
    clock: Option<Arc<dyn Clock>>,
}

impl InboxSteps {
    /// Returns the inbox of the store whose tables begin with this prefix (`semel_`, unless the store's url says
    /// otherwise), in the database that a connection is in. A store or `semel store migrate` has created them.
    ///
    /// # Errors
    /// `invalid-config`: this text cannot be a prefix.
    pub fn with_prefix(prefix: &str) -> Result<Self> {
        let texts = Texts::with_prefix(&config::prefix(prefix)?);
        Ok(Self::new(texts.into(), None))
    }

    pub(crate) fn new(texts: Arc<Texts>, clock: Option<Arc<dyn Clock>>) -> Self {
        Self { texts, clock }
    }

    /// Asks for the right to run an effect within `transaction`. The answer holds once the transaction is committed; a
    /// rollback revokes it.
    ///
    /// # Guarantee   INB-1 and those of `Store::claim`
    /// # Shape       granted → run the effect; anything else → do not
    /// # Cost        one round trip where the key is new, else two
    /// # Errors
    /// `throttled`, `unavailable` (not applied: roll back and try again).
    pub async fn admit(
        &self,
        transaction: &mut Transaction<'_>,
        request: &ClaimRequest,
    ) -> Result<Admission> {
        self.admit_in(transaction, request).await
    }

    /// Does what [`InboxSteps::admit`] does, on a connection of another driver, which is in a transaction.
    ///
    /// # Errors
    /// As [`InboxSteps::admit`].
    pub async fn admit_on(
        &self,
        driver: &mut impl Driver,
        request: &ClaimRequest,
    ) -> Result<Admission> {
        self.admit_in(&mut UserConnection(driver), request).await
    }

    async fn admit_in<C: Runs>(
        &self,
        transaction: &mut C,
        request: &ClaimRequest,
    ) -> Result<Admission> {
        let id = request.operation.id();
        let (script, places) = self.admission(id, request)?;
        let sets = transaction.rows(&script).await?;
        let row = only_of(&sets[places.drawn])?;
        let mut ledger = Ledger::new(time(row, 0)?);
        let mut token = number(row, 1)?.unwrap_or(0);
        let found = found(&sets[places.read])?;
        let inserted_with = token;
        let is_inserted = matches!(&found, Found::Record(_, record)
            if record.token.get() == token && record.claim_id == request.claim_id);
        if let Found::Record(_, record) = &found
            && record.token.get() > token
        {
            // Records may come from another store before its tokens do.
            token = self.draw_above(transaction, record.token).await?;
        }
        let found = if is_inserted { Found::Absent } else { found };
        ledger.found(id, &request.operation, found);
        if let (Some(gate), Some(place)) = (&request.gate, places.entity) {
            let entity = sets[place].first().map(entity_record).transpose()?;
            let scope = &request.operation.scope;
            ledger.found_entity(scope, &gate.entity, entity);
        }
        let mut token = std::iter::once(FencingToken::new(token));
        let Some(admission) = ledger.claim(id, request, &mut token) else {
            return Err(contended());
        };
        if is_inserted {
            if matches!(admission, Admission::Granted(_)) {
                ledger.wrote(id, first_revision(FencingToken::new(inserted_with)));
            } else {
                // The gate refused it; the row that was inserted to hold the key goes again.
                let mut script = Script::default();
                let token = Literal::number(inserted_with);
                let id = Literal::bytes(id.as_bytes());
                script.add(&self.texts.take_back, &[&id, &token]);
                transaction.rows(&script).await?;
            }
        }
        self.write(transaction, &ledger, request.gate.as_ref())
            .await?;
        Ok(admission)
    }

    /// Records that the effect of `claim` happened within `transaction`.
    ///
    /// # Guarantee   INB-1, CLM-3, OUT-1
    /// # Shape       mine → completed; lost → [`Settled::Fenced`], and the user rolls back
    /// # Cost        two round trips, three where the claim is gated
    /// # Errors
    /// As [`InboxSteps::admit`].
    pub async fn complete(
        &self,
        transaction: &mut Transaction<'_>,
        claim: &Claim,
        outcome: Outcome,
        window: Window,
    ) -> Result<Settled> {
        self.settle(transaction, &claim.completion(outcome, window))
            .await
    }

    /// Does what [`InboxSteps::complete`] does, on a connection of another driver, which is in a transaction.
    ///
    /// # Errors
    /// As [`InboxSteps::admit`].
    pub async fn complete_on(
        &self,
        driver: &mut impl Driver,
        claim: &Claim,
        outcome: Outcome,
        window: Window,
    ) -> Result<Settled> {
        self.settle_on(driver, &claim.completion(outcome, window))
            .await
    }

    /// Reports any other step of a claim within `transaction`: start, release, fail.
    ///
    /// # Guarantee   those of `Store::settle`
    /// # Errors
    /// As [`InboxSteps::admit`].
    pub async fn settle(
        &self,
        transaction: &mut Transaction<'_>,
        settlement: &Settlement,
    ) -> Result<Settled> {
        self.settle_in(transaction, settlement).await
    }

    /// Does what [`InboxSteps::settle`] does, on a connection of another driver, which is in a transaction.
    ///
    /// # Errors
    /// As [`InboxSteps::admit`].
    pub async fn settle_on(
        &self,
        driver: &mut impl Driver,
        settlement: &Settlement,
    ) -> Result<Settled> {
        self.settle_in(&mut UserConnection(driver), settlement)
            .await
    }

    async fn settle_in<C: Runs>(
        &self,
        transaction: &mut C,
        settlement: &Settlement,
    ) -> Result<Settled> {
        let texts = &self.texts;
        let Settlement { operation, .. } = settlement;
        let id = operation.id();
        let mut script = Script::default();
        let read = self.lock(&mut script, id, false);
        self.add_now(&mut script);
        let told = script.add(&texts.time, &[]);
        let sets = transaction.rows(&script).await?;
        let mut ledger = Ledger::new(time(only_of(&sets[told])?, 0)?);
        ledger.found(id, operation, found(&sets[read])?);
        let gate = ledger.record(id).and_then(|record| record.gate.clone());
        if let Some(gate) = &gate {
            let mut script = Script::default();
            let entity = Literal::list([OpId::of(&operation.scope, &gate.entity).as_bytes()]);
            let read = script.add(&texts.entity_lock, &[&entity]);
            let sets = transaction.rows(&script).await?;
            let entity = sets[read].first().map(entity_record).transpose()?;
            ledger.found_entity(&operation.scope, &gate.entity, entity);
        }
        let settled = ledger.settle(id, settlement);
        self.write(transaction, &ledger, None).await?;
        Ok(settled)
    }

    async fn draw_above<C: Runs>(&self, transaction: &mut C, token: FencingToken) -> Result<u64> {
        let mut script = Script::default();
        tokens::raise(&self.texts, &mut script, token.get());
        tokens::draw(&self.texts, &mut script, 1);
        let drawn = script.add(&self.texts.drawn, &[]);
        let sets = transaction.rows(&script).await?;
        Ok(number(only_of(&sets[drawn])?, 1)?.unwrap_or(0))
    }

    /// Builds the script that takes hold of the key, inserting it if it is absent, and draws a token under its lock.
    fn admission(&self, id: OpId, request: &ClaimRequest) -> Result<(Script, Places)> {
        let texts = &self.texts;
        let mut script = Script::default();
        self.add_now(&mut script);
        let mut row = Literal::foreign();
        if !push_claim(&mut row, &id, request, "0", "1") {
            let message = "the lease is longer than a server's clock can tell";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        row.push_code(",");
        row::push_key(&mut row, request.gate.as_ref().map(|gate| &gate.entity));
        row.push_code(",");
        match &request.gate {
            Some(gate) => row.push_number(gate.version),
            None => row.push_code("NULL"),
        }
        let young = young_until(request).map_or_else(
            || "1".to_owned(),
            |until| format!("@semel.now <= {}", until.as_millis()),
        );
        script.add(&texts.claim_one, &[&row, &Literal::code(young)]);
        tokens::draw(texts, &mut script, 1);
        let claim = Literal::bytes(&request.claim_id.to_bytes());
        script.add(&texts.token_set, &[&Literal::bytes(id.as_bytes()), &claim]);
        let read = self.lock(&mut script, id, request.wants_outcome);
        let entity = request.gate.as_ref().map(|gate| {
            let scope = &request.operation.scope;
            let mut row = Literal::default();
            push_entity(&mut row, scope, &gate.entity, &EntityRecord::default());
            script.add(&texts.entity_insert_new, &[&row]);
            let entity = Literal::list([OpId::of(scope, &gate.entity).as_bytes()]);
            script.add(&texts.entity_lock, &[&entity])
        });
        let drawn = script.add(&texts.drawn, &[]);
        let places = Places {
            drawn,
            read,
            entity,
        };
        Ok((script, places))
    }

    fn lock(&self, script: &mut Script, id: OpId, outcomes: bool) -> usize {
        let outcomes = Literal::number(outcomes.into());
        let ids = Literal::list([id.as_bytes()]);
        script.add(&self.texts.lock, &[&outcomes, &outcomes, &ids])
    }

    async fn write<C: Runs>(
        &self,
        transaction: &mut C,
        ledger: &Ledger,
        gate: Option<&VersionGate>,
    ) -> Result<()> {
        let texts = &self.texts;
        let mut script = Script::default();
        for entry in ledger.changes() {
            if let (Some(revision), Some(record)) = (entry.revision, &entry.record) {
                let mut set = Literal::foreign();
                push_assignments(&mut set, record);
                let id = Literal::bytes(entry.id.as_bytes());
                script.add(&texts.update, &[&set, &id, &Literal::number(revision)]);
            }
        }
        for it in ledger.entity_changes() {
            let [applied, holder, until] = entity_columns(&it.record);
            let id = Literal::bytes(it.id.as_bytes());
            if it.is_stored || gate.is_some() {
                script.add(&texts.entity_update, &[&applied, &holder, &until, &id]);
            } else {
                let mut row = Literal::default();
                push_entity(&mut row, &it.scope, &it.entity, &it.record);
                script.add(&texts.entity_insert, &[&row]);
            }
        }
        if script.statements > 0 {
            transaction.rows(&script).await?;
        }
        Ok(())
    }

    fn given_now(&self) -> Literal {
        given_now(self.clock.as_ref())
    }

    fn add_now(&self, script: &mut Script) {
        script.add(&self.texts.now, &[&self.given_now()]);
    }
}

impl fmt::Debug for InboxSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InboxSteps")
    }
}

/// Places of the parts in the results.
struct Places {
    drawn: usize,
    read: usize,
    entity: Option<usize>,
}

/// Reads the record of the only row, if there is one.
fn found<R: Cells>(rows: &[R]) -> Result<Found> {
    let row = rows.first().map(row::found).transpose()?;
    Ok(row.map_or(Found::Absent, |(_, found)| found))
}
