//! Taking locks.

use super::process::{Process, soon, text, three};
use crate::engine::error::EngineErrorKind;
use crate::engine::event::EngineEvent;
use crate::engine::request::EnqueueReply;
use crate::engine::token::Token;
use crate::limit::Limit;
use lock_test_support::etcd::Etcd;
use lock_test_support::proxy::Proxy;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::slice::from_ref;

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
