//! Logging in. No password is sent in clear text but over TLS or a Unix socket, nor encrypted by a key that
//! whoever is in between may have sent.

use crate::credentials::Login;
use crate::engine::mysql::address::Address;
use crate::engine::mysql::wire::error::{Failure, ServerError};
use crate::engine::mysql::wire::packets;
use crate::engine::mysql::wire::packets::read;
use mysql_common::auth::plugins::{AuthProc, ChallengeResponsePlugin, Context};
use mysql_common::constants::CapabilityFlags;
use mysql_common::io::ParseBuf;
use mysql_common::packets::{
    AuthPlugin, AuthSwitchRequest, HandshakePacket, HandshakeResponse, SslRequest,
};
use mysql_common::proto::MySerialize;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream whose server has accepted the user.
pub(crate) struct LoggedIn {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) flags: CapabilityFlags,
    /// The connection's number, as the server named it.
    pub(crate) number: u32,
}

/// What replies rely on. `CLIENT_FOUND_ROWS` would count rows that a statement does not change.
pub(crate) const FLAGS: CapabilityFlags = CapabilityFlags::CLIENT_PROTOCOL_41
    .union(CapabilityFlags::CLIENT_SECURE_CONNECTION)
    .union(CapabilityFlags::CLIENT_LONG_PASSWORD)
    .union(CapabilityFlags::CLIENT_TRANSACTIONS)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA)
    .union(CapabilityFlags::CLIENT_CONNECT_ATTRS);

const MAX_PACKET: u32 = 16 << 20;
/// The collation `utf8mb4_general_ci`, which every server has.
const COLLATION: u8 = 45;
/// The length of an SSL request without its head.
const SSL_REQUEST: usize = 32;
/// The length of a nonce, which a NUL may follow.
const NONCE: usize = 20;
/// The longest key or nonce.
const MAX_CHALLENGE: usize = 4096;
/// Asks for the key that encrypts the password.
const ASKS_FOR_KEY: &[u8] = &[2];

/// How the password gets to the server.
#[derive(Clone, Copy, PartialEq)]
enum Path {
    /// Others may read and change what is sent.
    Open,
    Tls,
    Socket,
}

struct Answering<'a> {
    password: &'a str,
    path: Path,
    nonce: &'a [u8],
}

impl Context for Answering<'_> {
    fn pass(&self) -> &[u8] {
        self.password.as_bytes()
    }

    fn is_ipc_transport(&self) -> bool {
        self.path == Path::Socket
    }

    fn is_tls_transport(&self) -> bool {
        self.path == Path::Tls
    }

    fn scramble(&self) -> &[u8] {
        self.nonce
    }

    fn server_key_pem(&self) -> Option<&[u8]> {
        None
    }
}

/// One way to prove a password.
struct Proof<'a> {
    plugin: AuthPlugin<'static>,
    procedure: AuthProc,
    nonce: Vec<u8>,
    password: &'a str,
    path: Path,
    trusts_key: bool,
}

impl Proof<'_> {
    /// Answers a challenge.
    fn answer(&mut self, challenge: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        // A huge key would take minutes to encrypt with.
        if challenge.len() > MAX_CHALLENGE {
            return Err(Failure::Malformed("a challenge at the login is too long"));
        }
        let context = Answering {
            password: self.password,
            path: self.path,
            nonce: &self.nonce,
        };
        let answer = self.procedure.run(context, challenge).map_err(|error| {
            let plugin = String::from_utf8_lossy(self.plugin.as_bytes()).into_owned();
            Failure::Unfit(format!("it can't log in by `{plugin}`: {error}"))
        })?;
        match answer.data() {
            Some(ASKS_FOR_KEY) if !self.trusts_key => Err(Failure::Unfit(
                "the server has not cached the password, which would be sent by a key that an attacker in between may \
                 have sent: use `ssl-mode=required`, a Unix socket, or, where no attacker can be, \
                 `get-server-public-key=true`"
                    .to_owned(),
            )),
            answer => Ok(answer.map(<[u8]>::to_vec)),
        }
    }
}

/// Logs in, and encrypts the stream first if the address says so. `host` is `None` on a Unix socket.
pub(crate) async fn log_in(
    mut stream: Box<dyn Stream>,
    host: Option<&str>,
    address: &Address,
    login: &Login,
) -> Result<LoggedIn, Failure> {
    let (mut number, packet) = read(&mut stream).await?;
    if packet.first() == Some(&0xff) {
        let error = ServerError::parse(&packet, CapabilityFlags::empty())?;
        return Err(Failure::Server(error));
    }
    // The library takes it for a signed number, and overflows.
    if nonce_length(&packet).is_some_and(|length| length > 127) {
        return Err(Failure::Malformed("a nonce is too long"));
    }
    let hello: HandshakePacket<'_> = ParseBuf(&packet).parse(())?;
    let mut nonce = hello.scramble_1_ref().to_vec();
    nonce.extend(hello.scramble_2_ref().unwrap_or_default());
    nonce.resize(NONCE, 0);
    let mut flags = FLAGS & hello.capabilities();
    let mut path = if host.is_some() {
        Path::Open
    } else {
        Path::Socket
    };
    if let Some(host) = host.filter(|_| address.encrypts()) {
        if !hello.capabilities().contains(CapabilityFlags::CLIENT_SSL) {
            let words = "the server has no TLS; set it up, or use `ssl-mode=disabled`";
            return Err(Failure::Unfit(words.to_owned()));
        }
        flags |= CapabilityFlags::CLIENT_SSL;
        let asked = flags | CapabilityFlags::CLIENT_CONNECT_WITH_DB;
        let mut body = Vec::new();
        SslRequest::new(asked, MAX_PACKET, COLLATION).serialize(&mut body);
        body.truncate(SSL_REQUEST);
        number = number.wrapping_add(1);
        send(&mut stream, number, &body).await?;
        (stream, path) = (encrypt(address, host, stream).await?, Path::Tls);
    }
    let named = hello.auth_plugin().map(AuthPlugin::into_owned);
    // Any other one is asked for by a switch.
    let plugin = match named {
        Some(AuthPlugin::CachingSha2Password) => AuthPlugin::CachingSha2Password,
        _ => AuthPlugin::MysqlNativePassword,
    };
    let (user, password) = login;
    let begin = |plugin: AuthPlugin<'static>, nonce: Vec<u8>| -> Result<_, Failure> {
        Ok(Proof {
            procedure: procedure(&plugin, path)?,
            plugin,
            nonce,
            password,
            path,
            trusts_key: address.trusts_key,
        })
    };
    let mut proof = begin(plugin.clone(), nonce.clone())?;
    let first = proof.answer(&nonce)?.unwrap_or_default();
    let attributes = [("program_name".to_owned(), "lock-runtime".to_owned())];
    let mut body = Vec::new();
    HandshakeResponse::new(
        Some(first),
        (8, 0, 0),
        Some(user.as_bytes()),
        Some(address.database.as_bytes()),
        Some(plugin),
        flags,
        Some(attributes.into()),
        MAX_PACKET,
    )
    .serialize(&mut body);
    send(&mut stream, number.wrapping_add(1), &body).await?;
    loop {
        let (number, packet) = read(&mut stream).await?;
        let answer = match packet.split_first() {
            Some((0x00, _)) => {
                let number = hello.connection_id();
                return Ok(LoggedIn {
                    stream,
                    flags,
                    number,
                });
            }
            Some((0xff, _)) => {
                return Err(Failure::Server(ServerError::parse(&packet, flags)?));
            }
            Some((0xfe, _)) => {
                let switch: AuthSwitchRequest<'_> = ParseBuf(&packet).parse(())?;
                let mut nonce = switch.plugin_data().to_vec();
                if nonce.len() == NONCE + 1 {
                    nonce.truncate(NONCE);
                }
                proof = begin(switch.auth_plugin().into_owned(), nonce.clone())?;
                proof.answer(&nonce)?
            }
            Some((0x01, challenge)) => proof.answer(challenge)?,
            _ => return Err(Failure::Malformed("an unexpected packet at the login")),
        };
        if let Some(answer) = answer {
            send(&mut stream, number.wrapping_add(1), &answer).await?;
        }
    }
}

/// Returns the length that a greeting claims for its nonce: it follows the version, a number, the first part
/// of the nonce, and flags.
fn nonce_length(greeting: &[u8]) -> Option<u8> {
    let version = greeting.iter().skip(1).position(|byte| *byte == 0)?;
    greeting.get(1 + version + 21).copied()
}

/// Returns the procedure of a plugin that reveals no password on that path.
fn procedure(plugin: &AuthPlugin<'_>, path: Path) -> Result<AuthProc, Failure> {
    let known = match plugin {
        AuthPlugin::CachingSha2Password | AuthPlugin::MysqlNativePassword | AuthPlugin::Ed25519 => {
            true
        }
        AuthPlugin::MysqlClearPassword => path != Path::Open,
        _ => false,
    };
    let procedure = known.then(|| AuthProc::init(plugin).ok()).flatten();
    procedure.ok_or_else(|| {
        let plugin = String::from_utf8_lossy(plugin.as_bytes()).into_owned();
        Failure::Unfit(format!(
            "the server asks for a login by `{plugin}`; give the user `caching_sha2_password`, \
             `mysql_native_password` or `ed25519`, or use TLS if it is `mysql_clear_password`"
        ))
    })
}

async fn send(stream: &mut Box<dyn Stream>, number: u8, body: &[u8]) -> Result<(), Failure> {
    let mut packet = Vec::new();
    packets::write(number, body, &mut packet);
    stream.write_all(&packet).await?;
    Ok(stream.flush().await?)
}

#[cfg(feature = "tls")]
async fn encrypt(
    address: &Address,
    host: &str,
    stream: Box<dyn Stream>,
) -> Result<Box<dyn Stream>, Failure> {
    match &address.tls {
        Some(tls) => Ok(Box::new(
            crate::engine::tls::encrypt(tls, host, stream).await?,
        )),
        None => Ok(stream),
    }
}

#[cfg(not(feature = "tls"))]
async fn encrypt(
    _: &Address,
    _: &str,
    stream: Box<dyn Stream>,
) -> Result<Box<dyn Stream>, Failure> {
    Ok(stream)
}
