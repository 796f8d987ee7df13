//! A store and the means to connect to it: resolves its name, connects, authenticates, and selects
//! the database.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Settings;
use super::connection::{Connection, StoreError};
use crate::config::Upstream;
use crate::disk::{Disk, Lane};
use crate::rt::host_names;
use crate::tls::UpstreamConfig;
use crate::transport::{ConnectError, UpstreamSocket};

/// Time limit of connecting, up to the store's reply to the last command of the preparation.
pub(super) const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// Pause before another connection.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Endpoint {
    pub(super) settings: Arc<Settings>,
    tls: Option<Arc<UpstreamConfig>>,
    disk: Disk,
    lane: Lane,
}

impl Endpoint {
    /// `disk` has the threads that look names up.
    pub(super) fn new(
        settings: &Arc<Settings>,
        tls: Option<Arc<UpstreamConfig>>,
        disk: &Disk,
    ) -> Endpoint {
        let lane = disk.lane_of("store".to_owned());
        Endpoint { settings: Arc::clone(settings), tls, disk: disk.clone(), lane }
    }

    /// Makes a connection whose user is authenticated and whose database is selected. Its time has
    /// no limit.
    ///
    /// # Errors
    /// The last fault, in words.
    pub(super) async fn connect(&self) -> Result<Connection, String> {
        let mut failed = "it has no address".to_owned();
        for address in self.addresses().await? {
            match self.open(address).await {
                Ok(socket) => {
                    let connection = Connection::new(socket);
                    self.prepare(&connection).await.map_err(|e| e.to_string())?;
                    return Ok(connection);
                }
                Err(ConnectError::Refused(e)) => failed = format!("{address}: {e}"),
                Err(ConnectError::Handshake(e)) => failed = format!("{address}: {e}"),
            }
        }
        Err(failed)
    }

    async fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        match &self.settings.config.server {
            Upstream::Address(address) => Ok(vec![*address]),
            Upstream::Name(name, port) => {
                let (name, port) = (name.clone(), *port);
                let look_up = move || host_names::addresses(&name, port);
                match self.disk.run(self.lane, look_up).await {
                    Ok(found) => found.map_err(|e| e.to_string()),
                    Err(_) => Err("the look-up of its name takes too long".to_owned()),
                }
            }
            Upstream::Unix(_) => Ok(Vec::new()),
        }
    }

    async fn open(&self, address: SocketAddr) -> Result<UpstreamSocket, ConnectError> {
        let Some(tls) = &self.tls else { return UpstreamSocket::connect(address, &[]).await };
        let host = match &self.settings.config.server {
            Upstream::Name(name, _) => name.clone(),
            _ => address.ip().to_string(),
        };
        let name = tls.server_name(&host).map_err(ConnectError::Handshake)?;
        UpstreamSocket::connect_tls((address, &[]), (tls.client(false), false), &name).await
    }

    /// Authenticates and selects the database.
    async fn prepare(&self, connection: &Connection) -> Result<(), StoreError> {
        let Settings { config, password } = &*self.settings;
        if let Some(password) = password {
            let user = config.user.as_deref().map(str::as_bytes);
            let command: Vec<&[u8]> =
                [&b"AUTH"[..]].into_iter().chain(user).chain([&password[..]]).collect();
            connection.ask(&command).await?;
        }
        if config.database != 0 {
            connection.ask(&[b"SELECT", config.database.to_string().as_bytes()]).await?;
        }
        Ok(())
    }
}
