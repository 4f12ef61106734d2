//! The samples that a worker shows to whoever scrapes it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The samples of one scrape, line by line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(String);

impl Samples {
    /// Scrapes the worker; none if it does not answer.
    pub(crate) async fn of(address: SocketAddr) -> Option<Self> {
        let (status, body) = get(address, "/metrics").await?;
        (status == 200).then_some(Self(body))
    }

    /// Returns the first sample of `family` with all of `labels` whose value is not zero, as it was written.
    pub(crate) fn shown(&self, family: &str, labels: &[&str]) -> Option<String> {
        let line = self.lines(family, labels).find(|it| value(it) != 0.0)?;
        Some(line.to_owned())
    }

    /// Adds the samples of `family` with all of `labels`.
    pub(crate) fn sum(&self, family: &str, labels: &[&str]) -> u64 {
        let sum: f64 = self.lines(family, labels).map(value).sum();
        // Counts of a drill are small.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small count"
        )]
        let whole = sum.round() as u64;
        whole
    }

    fn lines<'a>(
        &'a self,
        family: &'a str,
        labels: &'a [&'a str],
    ) -> impl Iterator<Item = &'a str> {
        self.0.lines().filter(move |line| {
            let name = line.split(['{', ' ']).next();
            name == Some(family) && labels.iter().all(|label| line.contains(label))
        })
    }
}

fn value(line: &str) -> f64 {
    let value = line.rsplit(' ').next();
    value.and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// The status and the body of an answer; none if nobody answers.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let answer = timeout(PATIENCE, ask(address, path)).await.ok()?.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

async fn ask(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// A worker that does not answer within this is one that does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_found_by_family_and_label() {
        let text = "# TYPE a counter\na_total{pipeline=\"p\",why=\"x\"} 0\na_total{pipeline=\"p\",why=\"y\"} 3\nb 1\n";
        let scrape = Samples(text.to_owned());
        assert_eq!(scrape.sum("a_total", &[]), 3);
        assert_eq!(scrape.sum("a_total", &["why=\"x\""]), 0);
        assert_eq!(scrape.sum("a", &[]), 0);
        let shown = scrape.shown("a_total", &["pipeline=\"p\""]);
        assert_eq!(
            shown.as_deref(),
            Some("a_total{pipeline=\"p\",why=\"y\"} 3")
        );
        assert_eq!(scrape.shown("a_total", &["why=\"x\""]), None);
    }
}
