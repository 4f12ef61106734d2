//! Connections to the broker.

use lapin::runtime::default_runtime;
use lapin::tcp::{AMQPUriTcpExt, RustlsConnector};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Connection, ConnectionProperties};
use semel_core::Result;
use tokio::time::timeout;

use crate::address::{Address, OPEN};
use crate::error;

/// Opens a connection. The driver itself reopens nothing.
pub(crate) async fn connect(address: &Address, name: &str) -> Result<Connection> {
    let name = ConnectionProperties::default().with_connection_name(name.into());
    let connect = async {
        if address.is_encrypted() {
            let encrypted = address.tls.config();
            let encrypted = encrypted.map_err(|error| error.with_code(address.code))?;
            connect_over(&address.uri, encrypted.into(), name).await
        } else {
            Connection::connect_uri(address.uri.clone(), name).await
        }
        .map_err(|error| error::of_connecting(address, error))
    };
    match timeout(OPEN, connect).await {
        Ok(connected) => connected,
        Err(_) => Err(error::silent(address)),
    }
}

/// Connects with certificates of our choice: the driver would trust the system's beside them.
async fn connect_over(
    uri: &AMQPUri,
    connector: RustlsConnector,
    name: ConnectionProperties,
) -> lapin::Result<Connection> {
    Connection::connector(
        uri.clone(),
        default_runtime()?,
        async move |uri, runtime| {
            let host = uri.authority.host.clone();
            let plain = AMQPUri {
                scheme: AMQPScheme::AMQP,
                ..uri
            };
            let stream = plain.connect_async(&runtime).await?;
            Ok(stream.into_rustls(&connector, &host).await?)
        },
        name,
    )
    .await
}
