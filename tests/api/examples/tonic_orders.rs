use std::collections::BTreeMap;

use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::instances::Instances;
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, eventually};
use orders_rpc::orders_client::OrdersClient;
use orders_rpc::{NewOrder, Order, OrderId};

#[path = "../../../examples/orders_rpc/mod.rs"]
mod orders_rpc;

const PROGRAMS: [&str; 2] = ["tonic_orders"; 2];

/// Instances of the service, and a client of each.
struct Site {
    instances: Instances,
    clients: [OrdersClient<Channel>; 2],
}

impl Site {
    async fn start(lock: &str) -> Self {
        let instances = Instances::start(&PROGRAMS, lock);
        let client = async |instance| {
            let endpoint = Channel::from_shared(instances.address(instance).to_owned());
            let channel = endpoint.unwrap().timeout(PATIENCE).connect().await;
            OrdersClient::new(channel.unwrap())
        };
        let clients = [client(0).await, client(1).await];
        Self { instances, clients }
    }

    fn client(&self, instance: usize) -> OrdersClient<Channel> {
        self.clients[instance % self.clients.len()].clone()
    }

    async fn create(&self, instance: usize) -> i64 {
        let item = "teapot".to_owned();
        let created = self.client(instance).create(NewOrder { item }).await;
        created.unwrap().into_inner().id
    }

    async fn find(&self, instance: usize, id: i64) -> Order {
        let found = self.client(instance).find(OrderId { id }).await;
        found.unwrap().into_inner()
    }

    /// Returns a call that ships an order.
    fn ship(
        &self,
        instance: usize,
        id: i64,
    ) -> impl Future<Output = Result<Order, Status>> + use<> {
        let mut client = self.client(instance);
        async move { Ok(client.ship(OrderId { id }).await?.into_inner()) }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tonic_instances_ship_each_order_once() {
    let server = Server::start();
    let site = Site::start(&server.url()).await;
    let mut orders = Vec::new();
    for instance in 0..5 {
        orders.push(site.create(instance).await);
    }
    let calls = (0..100).map(|n| site.ship(n, orders[n / 2 % orders.len()]));
    let mut codes = BTreeMap::new();
    for shipped in calls.collect::<JoinSet<_>>().join_all().await {
        let code = shipped.map_or_else(|status| status.code(), |_| Code::Ok);
        *codes.entry(code as i32).or_insert(0) += 1;
    }
    for (n, id) in orders.into_iter().enumerate() {
        let Order {
            shipped, parcels, ..
        } = site.find(n, id).await;
        assert!(shipped && parcels.len() == 1, "{parcels:?} {codes:?}");
    }
    let expected = [(Code::Ok as i32, 5), (Code::FailedPrecondition as i32, 95)];
    assert_eq!(codes, BTreeMap::from(expected));
    site.instances.stop();
    assert_eq!(server.key_count(), 0, "a lock is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_statuses() {
    let mut server = Server::start();
    let site = Site::start(&server.url()).await;
    let on_both = async |id: i64, code: Code, message: &str| {
        let (first, second) = tokio::join!(site.ship(0, id), site.ship(1, id));
        for status in [first.unwrap_err(), second.unwrap_err()] {
            assert_eq!((status.code(), status.message()), (code, message));
            let all = format!("{status:?}");
            assert!(!all.contains("lock:") && !all.contains("redis"), "{all}");
        }
    };
    on_both(999, Code::NotFound, "there is no order 999").await;
    let id = site.create(0).await;
    assert_eq!(site.ship(0, id).await.unwrap().parcels.len(), 1);
    let message = format!("order {id} has been shipped");
    on_both(id, Code::FailedPrecondition, &message).await;
    server.query::<()>(&format!("SET lock:order:{id} other-client"));
    on_both(id, Code::Aborted, "locked").await;
    server.query::<()>(&format!("DEL lock:order:{id}"));

    let other = site.create(1).await;
    server.kill();
    on_both(other, Code::Unavailable, "service unavailable").await;
    assert!(!site.find(0, other).await.shipped, "orders can be read");
    server.restart();
    assert!(site.ship(0, other).await.unwrap().shipped);
    site.instances.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminated_tonic_instance_finishes_running_call() {
    let server = Server::start();
    let site = Site::start(&server.url()).await;
    let id = site.create(0).await;
    let database = site.instances.stop_writes();
    let call = tokio::spawn(site.ship(0, id));
    let key = format!("lock:order:{id}");
    eventually("the order is being shipped", || server.exists(&key));
    site.instances.terminate(0);
    drop(database);
    assert_eq!(call.await.unwrap().unwrap().parcels.len(), 1);
    assert!(site.find(1, id).await.shipped);
    site.instances.stop();
    assert_eq!(server.key_count(), 0, "a lock is left");
}
