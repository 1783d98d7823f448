//! What operators see and do, on a server of etcd.

use crate::config::Config;
use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor};
use crate::engine::error::EngineErrorKind;
use crate::engine::etcd::tests::scripted_server::ScriptedServer;
use crate::engine::event::EngineEvent;
use crate::engine::operations::StoredReport;
use crate::engine::request::{Attempt, Claim, EnqueueReply};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::limit::Limit;
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, timeout_at};
use lock_test_support::etcd::Etcd;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::eventually;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(30);

/// For calls that nothing interrupts.
struct Unused;

impl ReleaseSupervisor for Unused {
    fn begun(&self) {}
    fn confirmed(&self, _claim: &Claim, _was_owner: bool, _was_held: bool) {}
    fn unconfirmed(self: Arc<Self>, _: BackgroundRelease, _: bool) {}
}

/// A process that uses locks, or looks at them.
struct Process {
    id: ProcessId,
    engine: Arc<dyn Engine>,
    events: mpsc::UnboundedReceiver<EngineEvent>,
}

fn soon() -> Instant {
    deadline_in(Duration::from_secs(20))
}

impl Process {
    async fn connect(config: impl Into<Config>) -> Process {
        let (sender, events) = mpsc::unbounded_channel();
        let handler = Arc::new(move |event| drop(sender.send(event)));
        let io = IoThread::start().unwrap();
        let (engine, _) = config
            .into()
            .open(io, Clock::default(), handler)
            .await
            .unwrap();
        Process {
            id: ProcessId::random(),
            engine,
            events,
        }
    }

    async fn acquire(&self, name: &str, limit: Limit) -> Option<Claim> {
        let attempt = Attempt {
            process: self.id,
            name: name.into(),
            ttl: TTL,
            replicas: 0,
            limit,
            waits: false,
            others: None,
        };
        let supervisor: Arc<dyn ReleaseSupervisor> = Arc::new(Unused);
        let acquired = self.engine.acquire(&attempt, &supervisor, soon()).await;
        Some(attempt.claim(acquired.unwrap()?.token))
    }

    async fn hold(&self, name: &str) -> Claim {
        self.acquire(name, Limit::EXCLUSIVE)
            .await
            .expect("it is free")
    }

    /// Enters the line of a lock that is held.
    async fn wait(&self, name: &str) -> Claim {
        let claim = Claim {
            name: name.into(),
            token: Token::draw(self.id),
            ttl: TTL,
            replicas: 0,
        };
        assert!(matches!(
            self.enqueue(&claim).await,
            EnqueueReply::Queued(_)
        ));
        claim
    }

    async fn enqueue(&self, claim: &Claim) -> EnqueueReply {
        self.engine.enqueue(claim, None, soon()).await.unwrap()
    }

    /// Waits until the watch reports that the lock may be free, and that it is.
    async fn until_granted(&mut self, claim: &Claim) {
        loop {
            let event = self.next_event().await;
            if matches!(event, EngineEvent::MayBeFree(token) if token == claim.token) {
                break;
            }
        }
        let reply = self.enqueue(claim).await;
        assert!(matches!(reply, EnqueueReply::AlreadyHeld(_)), "{reply:?}");
    }

    async fn next_event(&mut self) -> EngineEvent {
        let event = timeout_at(soon(), self.events.recv()).await;
        event.expect("an event comes").expect("the engine is there")
    }

    /// Returns what this process is asked next.
    async fn asked(&mut self) -> Arc<str> {
        loop {
            if let EngineEvent::Asked(text) = self.next_event().await {
                return text;
            }
        }
    }

    /// Breaks the connection, and waits for the next one.
    async fn connect_again(&mut self, path: &Proxy) {
        while self.events.try_recv().is_ok() {}
        path.cut();
        path.heal();
        while !matches!(self.next_event().await, EngineEvent::Resubscribed) {}
    }

    async fn number(&self, claim: &Claim) -> Option<u64> {
        self.engine.fencing_token(claim, soon()).await.unwrap()
    }

    async fn release(&self, claim: &Claim) -> bool {
        self.engine.release(claim, soon()).await.unwrap()
    }

    /// Returns the holders, and the waiters.
    async fn view(&self, name: &str) -> [Vec<String>; 2] {
        let view = self.engine.view(name, 99, soon()).await.unwrap();
        let holders = view.holders.iter().map(|holder| holder.token.to_string());
        [
            holders.collect(),
            view.waiters.iter().map(|it| it.to_string()).collect(),
        ]
    }

    /// Returns whether the token held the lock, and the fencing token.
    async fn take(&self, name: &str, token: &str) -> (bool, u64) {
        let taken = self.engine.take(name, token, 0, soon()).await.unwrap();
        assert!(!taken.pinned);
        (taken.held, taken.fencing_token)
    }

    async fn names(&self, prefix: &str, most: usize) -> Vec<Arc<str>> {
        self.engine.names(prefix, most, soon()).await.unwrap()
    }

    async fn report(&self, text: &str) {
        self.engine
            .report(self.id, text.into(), soon())
            .await
            .unwrap();
    }

    async fn reports(&self, of: Option<&[ProcessId]>) -> Vec<StoredReport> {
        self.engine.reports(of, soon()).await.unwrap()
    }

    async fn end(&self) {
        self.engine.drain().await.unwrap();
    }
}

fn text(token: Token) -> String {
    token.encode(&mut [0; 37]).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_taken_passes_to_the_next_in_line() {
    let etcd = Etcd::start();
    let [one, mut other, operator] = three(&etcd).await;
    let held = one.hold("lock:row").await;
    let (token, first) = (text(held.token), one.number(&held).await.unwrap());
    let waits = other.wait("lock:row").await;
    for wrong in ["", "?", "row/1", &text(Token::random())] {
        let (held, number) = operator.take("lock:row", wrong).await;
        assert!(!held && number >= first, "{wrong}");
    }
    let high = operator.engine.take("lock:row", &token, u64::MAX, soon());
    assert_eq!(high.await.unwrap_err().kind, EngineErrorKind::Rejected);
    assert_eq!(
        operator.view("lock:row").await,
        [[text(held.token)], [text(waits.token)]]
    );

    let taken = operator.engine.take("lock:row", &token, first + 1, soon());
    let taken = taken.await.unwrap();
    assert!(taken.held && taken.fencing_token > first, "{taken:?}");
    other.until_granted(&waits).await;
    let next = other.number(&waits).await.unwrap();
    assert!(next > taken.fencing_token);
    let renewed = one.engine.renew(from_ref(&held), soon()).await.unwrap();
    assert!(matches!(renewed[..], [Ok(false)]));
    assert_eq!(one.number(&held).await, None);
    assert_eq!(
        one.engine
            .downgrade(&held, held.token.with_limit(Limit::UNLIMITED), soon())
            .await
            .unwrap(),
        None
    );

    let (again, number) = operator.take("lock:row", &text(held.token)).await;
    assert!(!again && number >= taken.fencing_token);
    assert!(!one.release(&held).await);
    assert_eq!(
        operator.view("lock:row").await,
        [vec![text(waits.token)], vec![]]
    );
    assert!(other.number(&waits).await.unwrap() > number);
    assert!(other.release(&waits).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_taken_out_of_the_line_does_not_return() {
    let etcd = Etcd::start();
    let path = Proxy::to(etcd.port(0));
    let [one, _, operator] = three(&etcd).await;
    let mut other = Process::connect(format!("etcd://127.0.0.1:{}", path.port())).await;
    let held = one.hold("lock:row").await;
    let waits = other.wait("lock:row").await;
    let late = other.wait("lock:row").await;
    assert!(!operator.take("lock:row", &text(waits.token)).await.0);
    while !matches!(other.next_event().await, EngineEvent::MayBeFree(token) if token == waits.token)
    {
    }
    assert!(matches!(other.enqueue(&waits).await, EnqueueReply::Stale));
    // While it is cut off, it becomes a holder.
    path.black_hole();
    assert!(one.release(&held).await);
    assert_eq!(
        operator.view("lock:row").await,
        [vec![text(late.token)], vec![]]
    );
    assert!(operator.take("lock:row", &text(late.token)).await.0);
    other.connect_again(&path).await;
    assert!(matches!(other.enqueue(&late).await, EnqueueReply::Stale));
    assert!(operator.view("lock:row").await.concat().is_empty());
    let next = other.hold("lock:row").await;
    assert!(other.release(&next).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_holders_is_taken_from() {
    let etcd = Etcd::start();
    let [one, mut other, operator] = three(&etcd).await;
    let reader = one.acquire("lock:row", Limit::UNLIMITED).await.unwrap();
    let beside = operator
        .acquire("lock:row", Limit::UNLIMITED)
        .await
        .unwrap();
    let writer = other.wait("lock:row").await;
    let (held, first) = operator.take("lock:row", &text(reader.token)).await;
    assert!(held);
    let left = [vec![text(beside.token)], vec![text(writer.token)]];
    assert_eq!(operator.view("lock:row").await, left);
    let (held, second) = operator.take("lock:row", &text(beside.token)).await;
    assert!(held && second > first);
    other.until_granted(&writer).await;
    assert!(other.number(&writer).await.unwrap() > second);
    assert!(other.release(&writer).await);
}

/// An `etcdctl lock`, which is killed at the end.
struct Foreign(Child);

impl Foreign {
    fn start(etcd: &Etcd) -> Foreign {
        let mut command = etcd.command(&["lock", "--ttl=60", "lock:row"]);
        Foreign(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    fn until_held(&mut self) {
        let mut line = String::new();
        let mut output = BufReader::new(self.0.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with("lock:row/"), "{line}");
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_taken_from_another_client_that_holds_it() {
    let etcd = Etcd::start();
    let [one, mut other, operator] = three(&etcd).await;
    let held = one.hold("lock:row").await;
    let mut foreign = Foreign::start(&etcd);
    etcd.until_line("lock:row", 2);
    let waits = other.wait("lock:row").await;
    let [_, waiters] = operator.view("lock:row").await;
    // It would take its turn without a key.
    assert!(!operator.take("lock:row", &waiters[0]).await.0);
    assert_eq!(operator.view("lock:row").await[1], waiters);
    assert!(one.release(&held).await);
    tokio::task::block_in_place(|| foreign.until_held());
    assert!(operator.take("lock:row", &waiters[0]).await.0);
    other.until_granted(&waits).await;
    assert!(other.release(&waits).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_locks_are_found_by_their_prefix() {
    let etcd = Etcd::start();
    let [one, other, operator] = three(&etcd).await;
    assert!(operator.names("lock:", 99).await.is_empty());
    operator.report("here").await;
    operator.engine.ask("report", soon()).await.unwrap();
    etcd.ctl(&["put", "lock:no-lock", ""]);
    etcd.ctl(&["put", "lock:%41/1", ""]);
    let mut claims = Vec::new();
    let mut names: Vec<String> = (0..70).map(|n| format!("lock:n{n:02}")).collect();
    names.extend(["lock:a", "lock:a/b%", "lock:b:c"].map(str::to_owned));
    for name in &names {
        claims.push(one.hold(name).await);
    }
    // One line is longer than a page.
    for _ in 0..70 {
        claims.push(other.wait("lock:n30").await);
    }
    names.sort();
    let mut found = operator.names("lock:", 99).await;
    found.sort();
    assert_eq!(found.iter().map(|name| &**name).collect::<Vec<_>>(), names);
    assert_eq!(operator.names("lock:a", 99).await.len(), 2);
    assert_eq!(
        operator.names("lock:a/", 99).await,
        ["lock:a/b%"].map(Arc::from)
    );
    assert_eq!(operator.names("lock:n", 35).await.len(), 35);
    assert_eq!(
        operator.names("lock:n30", 1).await,
        ["lock:n30"].map(Arc::from)
    );
    assert!(operator.names("lock:x", 99).await.is_empty());
    assert!(operator.names("lock::", 99).await.is_empty());
    etcd.ctl(&["del", "--prefix", "lock:%"]);
    etcd.ctl(&["del", "lock:no-lock"]);
    for claim in claims {
        // A process releases its own claims alone.
        assert_ne!(one.release(&claim).await, other.release(&claim).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_lives_as_long_as_its_process_is_connected() {
    let etcd = Etcd::start();
    let path = Proxy::to(etcd.port(0));
    let mut one = Process::connect(format!("etcd://127.0.0.1:{}", path.port())).await;
    let [other, _, operator] = three(&etcd).await;
    assert!(operator.reports(None).await.is_empty());
    let leases = etcd.ctl(&["lease", "list"]);
    one.report("first").await;
    one.report("second").await;
    other.report("other").await;
    assert_eq!(etcd.ctl(&["lease", "list"]), leases);
    let report = |process: &Process, text: &str| StoredReport {
        process: process.id,
        text: text.into(),
        age: None,
    };
    let mut both = [report(&one, "second"), report(&other, "other")];
    both.sort_by_key(|report| report.process.0);
    assert_eq!(operator.reports(None).await, both);
    let of = [ProcessId::random(), one.id];
    assert_eq!(operator.reports(Some(&of)).await, [report(&one, "second")]);
    assert!(operator.reports(Some(&[])).await.is_empty());

    let key = format!("lock:::process:{}", one.id);
    let stored = || {
        let fields = etcd.ctl(&["get", &key, "-w", "fields"]);
        let lease = fields
            .lines()
            .find_map(|line| line.strip_prefix("\"Lease\" : "));
        lease.map(str::to_owned)
    };
    let before = stored().unwrap();
    one.connect_again(&path).await;
    eventually(Duration::from_secs(20), "it is stored again", || {
        stored().unwrap() != before
    });
    etcd.ctl(&[
        "lease",
        "revoke",
        &format!("{:x}", before.parse::<i64>().unwrap()),
    ]);
    assert_eq!(
        operator.reports(Some(&[one.id])).await,
        [report(&one, "second")]
    );
    one.end().await;
    other.end().await;
    assert!(operator.reports(None).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_in_the_place_of_reports_is_skipped() {
    let etcd = Etcd::start();
    let [one, other, operator] = three(&etcd).await;
    one.report("here").await;
    other.report(&"x".repeat(20_000)).await;
    let put = |id: &str, value: &[u8]| {
        let mut command = etcd.command(&["put", &format!("lock:::process:{id}")]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(value).unwrap();
        assert!(child.wait().unwrap().success());
    };
    for id in ["", "1", "7BE01C5", "7be01c5/", "zzzzzzz", "7be01c5\n"] {
        put(id, b"nonsense");
    }
    // More than a page, and more than a reply may have if it were one.
    let huge = vec![0xff; 1_400_000];
    for id in 0..50 {
        put(&format!("{id:07x}"), &huge);
    }
    let found = operator.reports(None).await;
    assert_eq!(found.len(), 52);
    assert!(
        found
            .iter()
            .all(|report| report.text.chars().count() <= 16 << 10)
    );
    let others: Vec<_> = found
        .iter()
        .filter(|report| report.process.0 >= 50)
        .collect();
    assert!(others.iter().any(|report| &*report.text == "here"));
    assert!(others.iter().any(|report| report.text.len() == 16 << 10));
    let ids: Vec<_> = (0..50).map(ProcessId).collect();
    assert_eq!(operator.reports(Some(&ids)).await.len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_reaches_every_process_that_is_connected() {
    let etcd = Etcd::start();
    let path = Proxy::to(etcd.port(0));
    let mut one = Process::connect(format!("etcd://127.0.0.1:{}", path.port())).await;
    let [mut other, _, mut operator] = three(&etcd).await;
    let first = "revoke\te823e7be01c58c509a20e4619a300481\t*\tann\tstuck ü";
    operator.engine.ask(first, soon()).await.unwrap();
    for process in [&mut one, &mut other, &mut operator] {
        assert_eq!(&*process.asked().await, first);
    }
    let revision = etcd.ctl(&["get", "lock:::asks", "-w", "json"]);
    // What is asked while it is cut off is lost, and what it has received does not come again.
    path.black_hole();
    operator.engine.ask("second", soon()).await.unwrap();
    assert_ne!(etcd.ctl(&["get", "lock:::asks", "-w", "json"]), revision);
    one.connect_again(&path).await;
    // Its watch has begun when another request on its connection has a reply.
    one.engine.ping(soon()).await.unwrap();
    operator.engine.ask("third", soon()).await.unwrap();
    operator.engine.ask("third", soon()).await.unwrap();
    assert_eq!(&*one.asked().await, "third");
    for expected in ["second", "third", "third"] {
        assert_eq!(&*other.asked().await, expected);
    }
    operator.end().await;
    assert_eq!(etcd.ctl(&["get", "lock:::asks"]), "");
    etcd.ctl(&["put", "lock:::asks", &"z".repeat(100_000)]);
    assert_eq!(&*one.asked().await, "third");
    assert_eq!(one.asked().await.len(), 16 << 10);
}

#[tokio::test]
async fn a_watch_of_asks_whose_history_is_gone_is_made_again() {
    let server = ScriptedServer::start().await;
    let mut process = Process::connect(server.url()).await;
    server.end_watch_and_ask("report").await;
    assert_eq!(&*process.asked().await, "report");
}

/// Starts etcd with the users `locks`, who may use the keys below `lock:`, `viewer`, who may read them, and `row`, who may
/// use what the one lock needs.
fn with_users() -> Etcd {
    let mut etcd = Etcd::start();
    for name in ["root", "locks", "viewer", "row"] {
        etcd.ctl(&["user", "add", &format!("{name}:secret")]);
        etcd.ctl(&["role", "add", name]);
        etcd.ctl(&["user", "grant-role", name, name]);
    }
    for (role, right, prefix) in [
        ("locks", "readwrite", "lock:"),
        ("viewer", "read", "lock:"),
        ("viewer", "readwrite", "lock:::epochs:"),
        ("row", "readwrite", "lock:row/"),
        ("row", "readwrite", "lock:::epochs:"),
        ("row", "readwrite", "lock:::fence"),
    ] {
        etcd.ctl(&[
            "role",
            "grant-permission",
            "--prefix=true",
            role,
            right,
            prefix,
        ]);
    }
    etcd.ctl(&["auth", "enable"]);
    etcd.log_in("root:secret");
    etcd
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_leave_locks_working() {
    let etcd = with_users();
    let user =
        async |name| Process::connect(Config::new(etcd.url()).credentials(name, "secret")).await;
    let (mut locks, viewer, mut row) =
        (user("locks").await, user("viewer").await, user("row").await);
    let held = locks.hold("lock:row").await;
    let waits = row.wait("lock:row").await;
    locks.report("here").await;
    locks.engine.ask("report", soon()).await.unwrap();
    assert_eq!(&*locks.asked().await, "report");

    assert_eq!(
        viewer.view("lock:row").await,
        [[text(held.token)], [text(waits.token)]]
    );
    assert_eq!(viewer.names("lock:", 9).await, ["lock:row"].map(Arc::from));
    assert_eq!(viewer.reports(None).await.len(), 1);
    assert_eq!(viewer.reports(Some(&[locks.id])).await.len(), 1);
    let refused = [
        viewer
            .engine
            .report(viewer.id, "here".into(), soon())
            .await
            .err(),
        viewer.engine.ask("report", soon()).await.err(),
        viewer
            .engine
            .take("lock:row", &text(held.token), 0, soon())
            .await
            .err(),
        row.engine.report(row.id, "here".into(), soon()).await.err(),
        row.engine.reports(None, soon()).await.err(),
        row.engine.reports(Some(&[locks.id]), soon()).await.err(),
        row.engine.ask("report", soon()).await.err(),
        row.engine.names("lock:", 9, soon()).await.err(),
    ];
    for (n, error) in refused.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("{n} is not refused"));
        assert_eq!(error.kind, EngineErrorKind::Rejected, "{n}: {error}");
        assert!(
            error.to_string().contains("permission denied"),
            "{n}: {error}"
        );
    }
    assert!(locks.take("lock:row", &text(held.token)).await.0);
    row.until_granted(&waits).await;
    assert!(row.take("lock:row", &text(waits.token)).await.0);
    assert!(!row.release(&waits).await);
    assert!(!locks.release(&held).await);
}

async fn three(etcd: &Etcd) -> [Process; 3] {
    let connect = || Process::connect(etcd.url());
    [connect().await, connect().await, connect().await]
}
