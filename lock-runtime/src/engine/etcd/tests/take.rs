//! Taking locks.

use crate::engine::tests::space::Space;
use lock_test_support::etcd::Etcd;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// It has become the holder meanwhile.
pub(super) async fn a_claim_that_is_taken_while_it_is_cut_off_does_not_return(space: Space) {
    let [one, operator] = space.peers().await;
    let (network, mut other) = space.distant_peer().await.unwrap();
    let held = one.hold("row").await;
    let waits = other.wait("row").await;
    network.proxies[0].black_hole();
    assert!(one.release(&held).await);
    let expected = [vec![waits.token.to_string()], vec![]];
    assert_eq!(operator.view("row").await, expected);
    assert!(operator.take_from(&waits).await.held);
    other.connect_again(&network).await;
    assert!(other.is_stale(&waits).await);
    assert!(operator.view("row").await.concat().is_empty());
    let next = other.hold("row").await;
    assert!(other.release(&next).await);
}

/// An `etcdctl lock`, which is killed at the end.
struct Foreign {
    name: String,
    child: Child,
}

impl Foreign {
    fn start(etcd: &Etcd, name: String) -> Foreign {
        let mut command = etcd.command(&["lock", "--ttl=60", &name]);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        Foreign { name, child }
    }

    fn until_held(&mut self) {
        let mut line = String::new();
        let mut output = BufReader::new(self.child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with(&format!("{}/", self.name)), "{line}");
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) async fn a_lock_is_taken_from_another_client_that_holds_it(space: Space) {
    let (etcd, name) = (space.servers::<Etcd>(), space.name("row"));
    let [one, mut other, operator] = space.peers().await;
    let held = one.hold("row").await;
    let mut foreign = Foreign::start(&etcd, name.clone());
    etcd.until_line(&name, 2);
    let waits = other.wait("row").await;
    let [_, waiters] = operator.view("row").await;
    // It would take its turn without a key.
    assert!(!operator.take("row", &waiters[0]).await.held);
    assert_eq!(operator.view("row").await[1], waiters);
    assert!(one.release(&held).await);
    foreign.until_held();
    assert!(operator.take("row", &waiters[0]).await.held);
    let granted = other.until_granted(&waits).await;
    assert!(other.release(&granted).await);
}
