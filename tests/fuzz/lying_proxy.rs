//! A proxy that falsifies the replies of a server.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::malformed_replies::{KINDS, Lie};
use lock_test_support::resp::Frames;
use lock_test_support::rng::Rng;

/// Answers `SENTINEL` and `CLUSTER` itself, which the server does not support, as the only Sentinel and the
/// only node of a cluster.
pub struct Liar {
    pub port: u16,
    server: u16,
    rng: Mutex<Rng>,
    /// The percentage of false replies.
    percent: AtomicU64,
    pub sent: [AtomicU64; KINDS.len()],
}

impl Liar {
    /// Starts the proxy; replies are honest until [`lie`](Self::lie) is called.
    pub async fn start(server: u16, rng: Rng) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let liar = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            server,
            rng: Mutex::new(rng),
            percent: AtomicU64::new(0),
            sent: [const { AtomicU64::new(0) }; KINDS.len()],
        });
        let theirs = liar.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(theirs.clone().serve(client));
            }
        });
        liar
    }

    pub fn lie(&self, percent: u64) {
        self.percent.store(percent, Relaxed);
    }

    pub fn lies(&self) -> u64 {
        self.sent.iter().map(|sent| sent.load(Relaxed)).sum()
    }

    async fn serve(self: Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.server)).await else {
            return;
        };
        let _ = client.set_nodelay(true);
        let (mut requests, replies) = client.into_split();
        let (answers, mut asked) = server.into_split();
        let mut rng = self.rng.lock().unwrap().split();
        // Most connections are set up with honest replies.
        let honest = if rng.one_in(8) { 0 } else { 9 + rng.below(4) };
        tokio::select! {
            _ = tokio::io::copy(&mut requests, &mut asked) => {}
            _ = self.answer(answers, replies, rng, honest) => {}
        }
    }

    async fn answer(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        mut rng: Rng,
        mut honest: u64,
    ) -> std::io::Result<()> {
        let mut frames = Frames::default();
        let mut bytes = vec![0; 16 * 1024];
        loop {
            let n = from.read(&mut bytes).await?;
            if n == 0 {
                return Ok(());
            }
            frames.add(&bytes[..n]);
            while let Some(frame) = frames.next_frame() {
                let frame = self.instead(&frame).unwrap_or(frame);
                if honest > 0 || rng.below(100) >= self.percent.load(Relaxed) {
                    honest = honest.saturating_sub(1);
                    to.write_all(&frame).await?;
                    continue;
                }
                let lie = Lie::about(&frame, &mut rng);
                self.sent[lie.kind].fetch_add(1, Relaxed);
                if lie.bit_by_bit {
                    for byte in &lie.bytes {
                        to.write_all(&[*byte]).await?;
                        tokio::task::yield_now().await;
                    }
                } else {
                    to.write_all(&lie.bytes).await?;
                }
                if lie.closes {
                    return Ok(());
                }
            }
        }
    }

    fn instead(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let port = self.port.to_string();
        let error = str::from_utf8(frame).ok()?.strip_prefix("-ERR ")?;
        if error.starts_with("This instance has cluster support disabled") {
            let node = format!("*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$1\r\nn\r\n");
            return Some(format!("*1\r\n*3\r\n:0\r\n:16383\r\n{node}").into_bytes());
        }
        let asked = error.strip_prefix("unknown command 'SENTINEL'")?;
        let words: Vec<&str> = match asked.contains("'MASTER'") {
            true => vec!["config-epoch", "1", "down-after-milliseconds", "5000"],
            false => vec!["127.0.0.1", &port],
        };
        let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
        let texts: String = words.iter().map(bulk).collect();
        Some(format!("*{}\r\n{texts}", words.len()).into_bytes())
    }
}
