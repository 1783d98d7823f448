//! TLS, through rustls.

use crate::engine::zookeeper::net::stream::Socket;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io::Error;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub(crate) async fn encrypt(
    config: &Arc<ClientConfig>,
    host: &str,
    stream: TcpStream,
) -> Result<Box<dyn Socket>, Error> {
    let name = ServerName::try_from(host.to_owned()).map_err(Error::other)?;
    let connector = TlsConnector::from(config.clone());
    Ok(Box::new(connector.connect(name, stream).await?))
}
