//! Curator itself, and its `InterProcessMutex`: `LOCK_CURATOR=1` runs it, with Java 17 and Maven.

use lock_test_support::manager::connected;
use lock_test_support::time::{eventually, patient, soon};
use lock_test_support::zookeeper::ZooKeeper;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// A process with a mutex of Curator on the lock `order`.
struct Curator {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Curator {
    fn start(zookeeper: &ZooKeeper) -> Self {
        let folder = compiled();
        let classes = format!(
            "{}:{}/*",
            join(folder, "classes"),
            join(folder, "dependency")
        );
        let server = format!("127.0.0.1:{}", zookeeper.port(0));
        let mut process = Command::new("java")
            .args(["-cp", &classes, "Peer", &server, "/lock/order"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`java` is installed");
        Self {
            orders: process.stdin.take().unwrap(),
            answers: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    fn order(&mut self, what: &str) {
        writeln!(self.orders, "{what}").unwrap();
    }

    fn until_done(&mut self) {
        let mut answer = String::new();
        tokio::task::block_in_place(|| self.answers.read_line(&mut answer)).unwrap();
        assert_eq!(answer, "done\n");
    }

    fn acquire(&mut self) {
        self.order("acquire");
        self.until_done();
    }

    fn release(&mut self) {
        self.order("release");
        self.until_done();
    }
}

impl Drop for Curator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn join(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// Compiles the program once, and returns its folder.
fn compiled() -> &'static Path {
    static FOLDER: OnceLock<&'static Path> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/curator"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zookeeper/curator");
        let built = Command::new("mvn")
            .args(["--batch-mode", "--quiet"])
            .arg(format!("-Dfolder={}", folder.display()))
            .args(["compiler:compile", "dependency:copy-dependencies"])
            .current_dir(source)
            .status();
        assert!(built.expect("`mvn` is installed").success());
        folder
    })
}

fn is_wanted() -> bool {
    std::env::var_os("LOCK_CURATOR").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_waits_for_a_guard_and_before_the_next() {
    if !is_wanted() {
        return;
    }
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let guard = locks.lock("order").acquire().await.unwrap();
    let mut curator = Curator::start(&zookeeper);
    curator.order("acquire");
    eventually("Curator waits", || zookeeper.claims().len() == 2);
    let last = tokio::spawn(locks.lock("order").acquire());
    eventually("the next waits", || zookeeper.claims().len() == 3);
    guard.release().await.unwrap();
    curator.until_done();
    assert!(!last.is_finished(), "it has passed Curator");
    curator.release();
    let last = soon(last).await.unwrap().unwrap();
    last.release().await.unwrap();
    locks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guard_waits_for_curator_and_before_the_next() {
    if !is_wanted() {
        return;
    }
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let (mut first, mut last) = (Curator::start(&zookeeper), Curator::start(&zookeeper));
    first.acquire();
    for lock in [locks.lock("order"), locks.lock("order").read()] {
        assert!(lock.try_acquire().await.unwrap().is_none());
    }
    let waiter = tokio::spawn(locks.lock("order").acquire());
    eventually("the guard waits", || zookeeper.claims().len() == 2);
    last.order("acquire");
    eventually("Curator waits", || zookeeper.claims().len() == 3);
    assert!(!waiter.is_finished());
    first.release();
    let guard = soon(waiter).await.unwrap().unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    last.until_done();
    assert!(locks.lock("order").try_acquire().await.unwrap().is_none());
    last.release();
    locks.shutdown().await;
}
