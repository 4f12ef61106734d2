//! Messages on a stream: the length in four bytes, least significant first, and so many bytes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::PATIENCE;

/// The result of reading from the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A message.
    Message(Vec<u8>),
    /// The other side hung up, between two messages.
    End,
    /// A length that no message has; the stream cannot be split into messages after it.
    TooLong(u32),
}

/// Reads a message of at most `most` bytes. Waits for its beginning without a limit, and then for the rest of it for
/// [`PATIENCE`].
///
/// # Cost   holds the bytes that have come, not the number that is announced
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin), most: usize) -> io::Result<Frame> {
    let mut len = [0; 4];
    if from.read(&mut len[..1]).await? == 0 {
        return Ok(Frame::End);
    }
    let rest = async {
        from.read_exact(&mut len[1..]).await?;
        let len = u32::from_le_bytes(len);
        let wanted = usize::try_from(len).unwrap_or(usize::MAX);
        if wanted > most {
            return Ok(Frame::TooLong(len));
        }
        let mut message = Vec::new();
        (&mut *from)
            .take(len.into())
            .read_to_end(&mut message)
            .await?;
        if message.len() < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Frame::Message(message))
    };
    timeout(PATIENCE, rest)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Writes a message.
pub(super) async fn write(to: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> io::Result<()> {
    let len = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    to.write_all(&len.to_le_bytes()).await?;
    to.write_all(message).await?;
    to.flush().await
}
