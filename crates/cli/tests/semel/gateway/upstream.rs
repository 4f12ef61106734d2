//! An API that knows nothing of keys, and books everything that arrives.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use semel_conformance::http::ArrivedRequest;

use crate::site::wait_for;

/// A server of its own, which ends with the test.
pub(crate) struct Upstream {
    port: u16,
    books: Arc<Books>,
}

/// The treatment of a request once it is booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// It is answered with this status, and with its number in the books.
    Answers(u16),
    /// It waits until the habit is another.
    Waits,
    /// The connection is closed without an answer.
    HangsUp,
}

struct Books {
    arrivals: Mutex<Vec<ArrivedRequest>>,
    habit: Mutex<Habit>,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        Self::start_at(free_port::take().expect("a free port"))
    }

    /// Starts at this port, which is free.
    pub(super) fn start_at(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a listener");
        let books = Arc::new(Books {
            arrivals: Mutex::default(),
            habit: Mutex::new(Habit::Answers(201)),
        });
        let shared = Arc::clone(&books);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let books = Arc::clone(&shared);
                // A client may go away at any time.
                thread::spawn(move || books.serve(&stream).unwrap_or(()));
            }
        });
        Self { port, books }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn is(&self, habit: Habit) {
        *self.books.habit.lock().expect("no panic") = habit;
    }

    pub(crate) fn arrivals(&self) -> Vec<ArrivedRequest> {
        self.books.arrivals().clone()
    }

    /// Waits until so many requests have arrived.
    pub(super) fn has(&self, count: usize) {
        wait_for("a request at the upstream", || {
            self.books.arrivals().len() >= count
        });
    }
}

impl Books {
    fn arrivals(&self) -> MutexGuard<'_, Vec<ArrivedRequest>> {
        self.arrivals.lock().expect("no panic")
    }

    fn serve(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let Some(arrival) = ArrivedRequest::read(&mut BufReader::new(stream))? else {
            return Ok(());
        };
        let number = {
            let mut arrivals = self.arrivals();
            arrivals.push(arrival);
            arrivals.len()
        };
        let status = loop {
            match *self.habit.lock().expect("no panic") {
                Habit::Answers(status) => break status,
                Habit::HangsUp => return Ok(()),
                Habit::Waits => {}
            }
            thread::sleep(Duration::from_millis(5));
        };
        let body = format!("{{\"charge\":{number}}}\n");
        let answer = format!(
            "HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\netag: \"{number}\"\r\n\
             set-cookie: session={number}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes())
    }
}
