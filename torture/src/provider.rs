//! A provider behind HTTP that honours idempotency keys, on an unreliable line. It keeps its own
//! books: they are the oracle.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use semel_conformance::http::ArrivedRequest;

use crate::{Payment, Payments};

/// The provider. It serves until the test process ends.
#[derive(Debug)]
pub struct Provider {
    address: SocketAddr,
    books: Arc<Mutex<Books>>,
    manners: Manners,
    /// True if it answers without a pause from now on.
    is_hurrying: Arc<AtomicBool>,
}

/// The behaviour towards requests.
#[derive(Clone, Copy, Debug)]
struct Manners {
    /// The least time of each request.
    pause: Duration,
    /// True if it refuses for good the payments that are to be refused.
    is_choosy: bool,
}

/// The requests that arrived, and their results.
#[derive(Debug, Default)]
struct Books {
    arrivals: u64,
    /// The idempotency keys of each payment.
    keys: BTreeMap<String, BTreeSet<String>>,
    /// The number of times that each payment was carried out.
    effects: BTreeMap<String, u32>,
    /// The payments that were carried out, one after the other.
    order: Vec<String>,
    /// Idempotency keys that were honoured.
    done: BTreeSet<String>,
}

impl Provider {
    /// Listens on a port of its own.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn start() -> Self {
        Self::slow(Duration::ZERO)
    }

    /// The same, and each request takes at least this long.
    ///
    /// # Panics
    ///
    /// If there is no port.
    pub fn slow(pause: Duration) -> Self {
        let is_choosy = false;
        Self::with(Manners { pause, is_choosy })
    }

    /// The same, and payments that are to be refused are refused for good.
    ///
    /// # Panics
    ///
    /// If there is no port.
    pub fn choosy(pause: Duration) -> Self {
        let is_choosy = true;
        Self::with(Manners { pause, is_choosy })
    }

    fn with(manners: Manners) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("a port");
        let books = Arc::<Mutex<Books>>::default();
        let is_hurrying = Arc::<AtomicBool>::default();
        let provider = Self {
            address,
            books: Arc::clone(&books),
            manners,
            is_hurrying: Arc::clone(&is_hurrying),
        };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (books, is_hurrying) = (Arc::clone(&books), Arc::clone(&is_hurrying));
                // A client that hangs up was killed.
                thread::spawn(move || serve(&stream, &books, manners, &is_hurrying));
            }
        });
        provider
    }

    /// The URL for payments.
    pub fn url(&self) -> String {
        format!("http://{}/charge", self.address)
    }

    /// Answers at once from now on.
    pub fn hurry(&self) {
        self.is_hurrying.store(true, Ordering::Relaxed);
    }

    /// Requests that arrived.
    pub fn arrivals(&self) -> u64 {
        self.books().arrivals
    }

    /// The ids of all payments that were carried out, in their order.
    pub fn carried_out(&self) -> Vec<String> {
        self.books().order.clone()
    }

    /// The number of payments that were carried out.
    pub fn effects(&self) -> usize {
        self.books().order.len()
    }

    /// The payments that were not carried out once, or were although they are to be refused, and those
    /// that were requested under several idempotency keys; by id, with the actual history.
    pub fn wrong(&self, payments: &Payments) -> Vec<(String, String)> {
        let books = self.books();
        let asked: BTreeSet<&str> = payments.distinct.iter().map(|it| &*it.id).collect();
        let refused = if self.manners.is_choosy {
            payments.refused()
        } else {
            BTreeSet::new()
        };
        let known = books.keys.keys().map(|id| &**id);
        let all: BTreeSet<&str> = known.chain(asked.iter().copied()).collect();
        let wrong = all.into_iter().filter_map(|id| {
            let times = books.effects.get(id).copied().unwrap_or(0);
            let keys = books.keys.get(id).map_or(0, BTreeSet::len);
            let due = u32::from(!refused.contains(id));
            let is_right = (times, keys) == (due, 1) && asked.contains(id);
            let what = format!("carried out {times} times, asked for under {keys} keys");
            (!is_right).then(|| (id.to_owned(), what))
        });
        wrong.collect()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        locked(&self.books)
    }
}

fn locked(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the requests of one connection. One request in nine is turned away, one in eleven is carried
/// out and answered with an error, and after one in thirteen the line breaks.
fn serve(
    stream: &TcpStream,
    books: &Mutex<Books>,
    manners: Manners,
    is_hurrying: &AtomicBool,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while let Some(request) = ArrivedRequest::read(&mut reader)? {
        let key = request.header("idempotency-key").unwrap_or_default();
        let key = key.to_owned();
        let payment: serde_json::Value = serde_json::from_slice(&request.body)?;
        let payment = Payment {
            id: payment["id"].as_str().unwrap_or_default().to_owned(),
            amount: payment["amount"].as_u64().unwrap_or_default(),
        };
        let is_refused = manners.is_choosy && payment.is_refused();
        let id = payment.id;
        let number = {
            let mut books = locked(books);
            books.arrivals += 1;
            let number = books.arrivals;
            books
                .keys
                .entry(id.clone())
                .or_default()
                .insert(key.clone());
            let is_carried_out = !number.is_multiple_of(9) && !is_refused;
            if is_carried_out && books.done.insert(key) {
                *books.effects.entry(id.clone()).or_default() += 1;
                books.order.push(id);
            }
            number
        };
        if !is_hurrying.load(Ordering::Relaxed) {
            thread::sleep(manners.pause);
        }
        let status = match number {
            number if number.is_multiple_of(9) => "503 later\r\nretry-after: 0",
            _ if is_refused => "422 refused",
            number if number.is_multiple_of(11) => "500 sorry",
            number if number.is_multiple_of(13) => return Ok(()),
            _ => "200 charged",
        };
        write!(writer, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moments;

    #[test]
    fn what_is_to_be_refused_is_wrong_if_it_was_carried_out() {
        let mut payments = Payments::generate(2, &mut Moments::seeded(1));
        let ids: Vec<String> = payments.distinct.iter().map(|it| it.id.clone()).collect();
        let amounts = ids.iter().zip([1, 9_000]);
        let amounts = amounts.map(|(id, amount)| (id.clone(), amount));
        payments.distinct = amounts.map(|(id, amount)| Payment { id, amount }).collect();
        let provider = Provider::choosy(Duration::ZERO);
        let note = |id: &String, times| {
            let mut books = provider.books();
            books.effects.insert(id.clone(), times);
            books.keys.insert(id.clone(), ["a".to_owned()].into());
        };
        for id in &ids {
            note(id, 1);
        }
        let wrong = provider.wrong(&payments);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert_eq!(wrong[0].0, ids[0]);
        note(&ids[0], 0);
        assert_eq!(provider.wrong(&payments), []);
    }

    #[test]
    fn what_was_not_carried_out_once_under_one_key_is_wrong() {
        let payments = Payments::generate(3, &mut Moments::seeded(1));
        let provider = Provider::start();
        let ids: Vec<String> = payments.distinct.iter().map(|it| it.id.clone()).collect();
        let note = |id: &str, times, keys: &[&str]| {
            let mut books = provider.books();
            books.effects.insert(id.to_owned(), times);
            let keys = keys.iter().map(|key| (*key).to_owned());
            books.keys.insert(id.to_owned(), keys.collect());
        };
        note(&ids[0], 2, &["a"]);
        note(&ids[1], 1, &["b", "c"]);
        note("pay-x", 1, &["d"]);
        let wrong = provider.wrong(&payments);
        let wrong: BTreeSet<&str> = wrong.iter().map(|(id, _)| &**id).collect();
        assert_eq!(wrong, [&*ids[0], &*ids[1], &*ids[2], "pay-x"].into());
        for id in &ids {
            note(id, 1, &["a"]);
        }
        provider.books().keys.remove("pay-x");
        assert_eq!(provider.wrong(&payments), []);
    }
}
