//! Requests as a server of a test reads them off its connection, without a server of HTTP that could hide something.

use std::io::{self, BufRead};

/// A request as it arrived: HTTP/1.1, its body by its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivedRequest {
    /// Its method.
    pub method: String,
    /// Its path and its query.
    pub path: String,
    headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl ArrivedRequest {
    /// Reads the next request of a connection; nothing of one that has ended, or is only looked at.
    ///
    /// # Errors
    ///
    /// Those of the connection, and its end in the middle of a body
    pub fn read(stream: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let mut words = line.split(' ').map(str::to_owned);
        let (Some(method), Some(path)) = (words.next(), words.next()) else {
            return Ok(None);
        };
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self {
            method,
            path,
            headers,
            body: Vec::new(),
        };
        let length = request.header("content-length");
        let length = length.and_then(|value| value.parse().ok());
        request.body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut request.body)?;
        Ok(Some(request))
    }

    /// Returns the first value of a header, whose name is in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| &**value)
    }
}
