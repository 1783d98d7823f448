use super::{Process, TTL, soon};
use crate::config::Config;
use crate::engine::background_release::{ReleaseSupervisor, Unused};
use crate::engine::event::EngineEvent;
use crate::engine::request::{Attempt, Claim};
use crate::engine::token::Token;
use crate::limit::Limit;
use lock_test_support::pgbouncer::PgBouncer;
use lock_test_support::postgres::Postgres;
use std::sync::Arc;

impl Process {
    /// Returns a process that hears recalls.
    async fn listening(server: &Postgres) -> Process {
        let mut process = Process::of(server).await;
        process.hear_recalls().await;
        process
    }

    async fn hear_recalls(&mut self) {
        while !self.hears_recalls("lock:row") {
            self.next_resubscription().await;
        }
    }

    /// Acquires a free lock, which this process may keep if it hears when others wait for it.
    async fn acquire_lazily(&self, name: &str) -> Claim {
        let attempt = Attempt {
            is_recallable: true,
            process: self.id,
            name: name.into(),
            ttl: TTL,
            replicas: 0,
            limit: Limit::EXCLUSIVE,
            waits: false,
            others: None,
        };
        let supervisor: Arc<dyn ReleaseSupervisor> = Arc::new(Unused);
        let acquired = self.engine.acquire(&attempt, &supervisor, soon()).await;
        attempt.claim(acquired.unwrap().expect("it is free").token)
    }

    async fn next_recall(&mut self) -> (Arc<str>, Token) {
        self.next(|event| match event {
            EngineEvent::Recalled { name, token } => Some((name, token)),
            _ => None,
        })
        .await
    }

    /// Returns the tokens that are recalled before a message that `other` sends now.
    async fn recalls_before_an_ask_of(&mut self, other: &Process) -> Vec<Token> {
        other.ask("end", soon()).await.unwrap();
        let mut recalled = Vec::new();
        loop {
            let next = self.next(|event| match event {
                EngineEvent::Recalled { token, .. } => Some(Some(token)),
                EngineEvent::Asked(_) => Some(None),
                _ => None,
            });
            match next.await {
                Some(token) => recalled.push(token),
                None => return recalled,
            }
        }
    }
}

#[tokio::test]
async fn lock_is_recalled_by_each_poll_of_another_process() {
    let server = Postgres::start();
    let (mut keeper, other) = (
        Process::listening(&server).await,
        Process::of(&server).await,
    );
    let longest = "k".repeat(1000);
    for name in [
        "lock:row",
        "lock:a b  c ",
        "lock:'\"$1; recall",
        "lock:a\r\n\tb",
        "lock:\\\0\\\\0",
        "lock:ä\u{10ffff}",
        &longest,
    ] {
        let kept = keeper.acquire_lazily(name).await;
        let waits = other.wait(name).await;
        let recalled = (kept.name.clone(), kept.token);
        assert_eq!(keeper.next_recall().await, recalled);
        other.ask_for(&waits).await;
        assert_eq!(keeper.next_recall().await, recalled);
        assert!(keeper.release(&kept, soon()).await.unwrap());
        assert!(other.release(&waits, soon()).await.unwrap());
    }
    assert_eq!(keeper.recalls_before_an_ask_of(&other).await, []);
}

#[tokio::test]
async fn three_waiters_of_a_queue_recall() {
    let server = Postgres::start();
    let (mut keeper, other) = (
        Process::listening(&server).await,
        Process::of(&server).await,
    );
    let kept = keeper.acquire_lazily("lock:row").await;
    let mut waiters = Vec::new();
    for expected in [1, 1, 1, 0, 0] {
        waiters.push(other.wait("lock:row").await);
        let recalled = keeper.recalls_before_an_ask_of(&other).await;
        assert_eq!(recalled, vec![kept.token; expected]);
    }
    for claim in waiters.iter().rev().chain([&kept]) {
        other.cancel(claim, false, soon()).await.unwrap();
    }
}

#[tokio::test]
async fn other_locks_are_not_recalled() {
    let server = Postgres::start();
    let (mut keeper, mut other) = (
        Process::listening(&server).await,
        Process::listening(&server).await,
    );
    let recallable = |process: &Process, name, limit| {
        let claim = process.claim(name, limit);
        let token = claim.token.recallable();
        Claim { token, ..claim }
    };
    let ordinary = keeper.acquire("lock:ordinary", Limit::EXCLUSIVE).await;
    let own = keeper.acquire_lazily("lock:own").await;
    let reads = recallable(&keeper, "lock:read", Limit::UNLIMITED);
    keeper.ask_for(&reads).await;
    let waiters = [
        other.wait("lock:ordinary").await,
        keeper.wait("lock:own").await,
        other.wait("lock:read").await,
    ];
    for process in [&mut keeper, &mut other] {
        let asking = Process::of(&server).await;
        assert_eq!(process.recalls_before_an_ask_of(&asking).await, []);
    }
    for claim in waiters.iter().chain([&ordinary, &own, &reads]) {
        other.cancel(claim, false, soon()).await.unwrap();
    }
}

/// Its stored name does not tell the lock.
#[tokio::test]
async fn recalls_of_a_long_name_are_not_heard() {
    let server = Postgres::start();
    let keeper = Process::listening(&server).await;
    assert!(keeper.hears_recalls(&"k".repeat(1000)));
    assert!(!keeper.hears_recalls(&"k".repeat(1001)));
}

/// Whoever knows the channel could give a lock to two holders.
#[tokio::test]
async fn nothing_but_a_recall_comes_on_the_channel_that_others_know() {
    let server = Postgres::start();
    let mut keeper = Process::listening(&server).await;
    let token = "0123456789abcdef0123456789abcdef";
    for text in [
        format!("grant {token} 1 2000000 lock:row"),
        format!("first {token}"),
        format!("recall {token} lock:row"),
    ] {
        let channel = format!("distributed_lock_recalls_{}", keeper.id);
        server.execute(&format!("SELECT pg_notify('{channel}', '{text}')"));
    }
    let is_recall = keeper.next(|event| match event {
        EngineEvent::Granted(_) | EngineEvent::AtFront(_) => Some(false),
        EngineEvent::Recalled { .. } => Some(true),
        _ => None,
    });
    assert!(is_recall.await);
}

#[tokio::test]
async fn recalls_are_heard_again_after_the_connection_has_ended() {
    let server = Postgres::start();
    let mut keeper = Process::of(&server).await;
    assert!(!keeper.hears_recalls("lock:row"), "it begins to listen");
    keeper.hear_recalls().await;
    let other = Process::of(&server).await;
    let kept = keeper.acquire_lazily("lock:row").await;
    server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE query LIKE '%LISTEN%' AND pid <> pg_backend_pid()",
    );
    // Recalls may have been missed when it ends, and until there is another one.
    keeper.next_resubscription().await;
    keeper.next_resubscription().await;
    assert!(keeper.hears_recalls("lock:row"));
    let waits = other.wait("lock:row").await;
    assert_eq!(keeper.next_recall().await.1, kept.token);
    for claim in [&waits, &kept] {
        other.cancel(claim, false, soon()).await.unwrap();
    }
}

#[tokio::test]
async fn process_behind_a_pooler_recalls_and_hears_no_recall() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(server.port());
    let pooled = Process::connect(Config::new(pooler.url())).await;
    assert!(!pooled.hears_recalls("lock:row"));
    let mut keeper = Process::listening(&server).await;
    let kept = keeper.acquire_lazily("lock:row").await;
    // It waits until it is known whether messages arrive.
    let waits = pooled.wait("lock:row").await;
    assert_eq!(keeper.next_recall().await.1, kept.token);
    assert!(!pooled.hears_recalls("lock:row"));
    for claim in [&waits, &kept] {
        keeper.cancel(claim, false, soon()).await.unwrap();
    }
}
