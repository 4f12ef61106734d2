//! A server of the test's own, which may be killed.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::test_stream::variable;

pub(crate) struct Own {
    pub(crate) address: SocketAddr,
    folder: TempDir,
    /// Further arguments that it is started with.
    pub(crate) more: Vec<String>,
    child: Option<Child>,
}

impl Own {
    pub(crate) async fn start() -> Self {
        Self::start_with(Vec::new()).await
    }

    pub(crate) async fn start_with(more: Vec<String>) -> Self {
        let port = free_port::take().expect("a free port");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let folder = tempfile::tempdir().expect("a folder");
        let mut own = Self {
            address,
            folder,
            more,
            child: None,
        };
        own.restart().await;
        own
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) async fn restart(&mut self) {
        self.kill();
        let mut command = Command::new(PathBuf::from(variable("SEMEL_TEST_NATS_PROGRAM")));
        command
            .arg("--jetstream")
            .arg("--store_dir")
            .arg(self.folder.path())
            .args([
                "--addr",
                "127.0.0.1",
                "--port",
                &self.address.port().to_string(),
            ])
            .args(&self.more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.child = Some(command.spawn().expect("the server starts"));
        let up = timeout(Duration::from_secs(20), async {
            while !greets(self.address).await {
                sleep(Duration::from_millis(50)).await;
            }
        });
        up.await.expect("the server comes up");
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn greets(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return false;
    };
    let mut hello = [0; 4];
    stream.read_exact(&mut hello).await.is_ok() && &hello == b"INFO"
}
