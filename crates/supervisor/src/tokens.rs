//! The tokens of those who call a worker, for each of its listeners that wants some.

use std::net::SocketAddr;
use std::sync::Arc;

use semel_config::Settings;
use semel_core::{Error, ErrorKind, Result};
use semel_http::needs_token;
use semel_http::tokens::{self, TokenFile, TokenNotice, Tokens};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::notice::{Notice, Reporter};

/// The tokens as they are now.
pub(crate) type Known = watch::Receiver<Arc<Tokens>>;

/// Reads the tokens, and begins to watch their file; none where no listener knows callers.
///
/// # Errors
///
/// `InvalidConfig`: the file is damaged, or an address needs tokens and there are none
pub(crate) fn begin(
    settings: &Settings,
    reporter: &Arc<dyn Reporter>,
    beside: &mut JoinSet<()>,
) -> Result<Option<Known>> {
    let claims = settings.claims_listeners().into_iter();
    let claims = claims.map(|it| (it.setting, it.address, "operator"));
    let admin = settings.admin.listen.filter(|_| settings.admin.api);
    let admin = admin.map(|address| ("admin.listen", address, "viewer"));
    let listeners: Vec<_> = claims.chain(admin).collect();
    if listeners.is_empty() {
        return Ok(None);
    }
    let file = TokenFile::new(&settings.tokens.file);
    let known = file.read()?;
    let mut open = listeners.iter().filter(|(_, it, _)| needs_token(*it));
    if let (Some((setting, address, role)), 0) = (open.next(), known.count()) {
        return Err(no_tokens(setting, *address, role, &file));
    }
    let (sender, tokens) = watch::channel(Arc::new(known));
    beside.spawn(watch_file(file, sender, Arc::clone(reporter)));
    Ok(Some(tokens))
}

async fn watch_file(
    file: TokenFile,
    known: watch::Sender<Arc<Tokens>>,
    reporter: Arc<dyn Reporter>,
) {
    let report = |notice: TokenNotice<'_>| match notice {
        TokenNotice::Unreadable(error) => reporter.report(&Notice::TokensUnreadable(error)),
        TokenNotice::Changed { count } => reporter.report(&Notice::TokensChanged { count }),
    };
    tokens::watch(file, known, report).await;
}

fn no_tokens(setting: &str, address: SocketAddr, role: &str, file: &TokenFile) -> Error {
    let way_out = if setting == "admin.listen" {
        "; or set `admin.api = false` to serve /healthz, /readyz and /metrics alone"
    } else {
        ""
    };
    let message = format!(
        "{setting}: {address} is no loopback address, and there is no token in {}; make one: semel token create \
         NAME --role {role}{way_out}",
        file.path().display()
    );
    Error::new(ErrorKind::InvalidConfig, message)
}
