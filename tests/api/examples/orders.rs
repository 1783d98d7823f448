use std::collections::BTreeMap;
use std::thread;

use super::site::Site;
use lock_test_support::server::Server;
use lock_test_support::time::eventually;

/// Creates five orders, and sends twenty concurrent requests for each, half of them to each instance.
/// Returns how often each order was shipped, and the number of responses by status.
fn rush(site: &Site) -> (Vec<usize>, BTreeMap<u16, usize>) {
    let orders: Vec<i64> = (0..5).map(|n| site.create(n).id).collect();
    let mut statuses = BTreeMap::new();
    thread::scope(|scope| {
        let requests = (0..100).map(|n| {
            let id = orders[n / 2 % orders.len()];
            scope.spawn(move || site.ship(n, id).status().as_u16())
        });
        for request in requests.collect::<Vec<_>>() {
            *statuses.entry(request.join().unwrap()).or_default() += 1;
        }
    });
    let parcels = orders.iter().enumerate().map(|(n, id)| {
        let order = site.find(n, *id);
        assert_eq!(
            (order.id, &*order.item, order.shipped),
            (*id, "teapot", true)
        );
        order.parcels.len()
    });
    (parcels.collect(), statuses)
}

#[track_caller]
fn ships_each_order_once(programs: [&'static str; 2]) {
    let server = Server::start();
    let site = Site::start(&programs, &server.url());
    let (parcels, statuses) = rush(&site);
    assert_eq!(parcels, [1; 5], "{statuses:?}");
    assert_eq!(statuses, BTreeMap::from([(200, 5), (409, 95)]));
    site.instances.stop();
    assert_eq!(server.key_count(), 0, "a lock is left");
}

#[test]
fn two_axum_instances_ship_each_order_once() {
    ships_each_order_once(["axum_orders"; 2]);
}

#[test]
fn two_actix_instances_ship_each_order_once() {
    ships_each_order_once(["actix_orders"; 2]);
}

#[test]
fn axum_and_actix_instances_ship_each_order_once() {
    ships_each_order_once(["axum_orders", "actix_orders"]);
}

/// The control: with a separate lock per instance, orders are shipped twice.
#[test]
fn instances_without_shared_lock_ship_orders_twice() {
    let site = Site::start(&["axum_orders", "actix_orders"], "memory://");
    let (parcels, statuses) = rush(&site);
    assert!(parcels.contains(&2), "{parcels:?} {statuses:?}");
    site.instances.stop();
}

#[test]
fn terminated_instance_finishes_running_request() {
    for program in ["axum_orders", "actix_orders"] {
        let server = Server::start();
        let site = Site::start(&[program; 2], &server.url());
        let id = site.create(0).id;
        let database = site.instances.stop_writes();
        thread::scope(|scope| {
            let request = scope.spawn(|| site.ship(0, id).status().as_u16());
            let key = format!("lock:order:{id}");
            eventually("the order is being shipped", || server.exists(&key));
            site.instances.terminate(0);
            drop(database);
            assert_eq!(request.join().unwrap(), 200);
        });
        assert_eq!(site.find(1, id).parcels.len(), 1);
        site.instances.stop();
        assert_eq!(server.key_count(), 0, "a lock is left");
    }
}

#[test]
fn page_shows_how_long_orders_are_held() {
    let server = Server::start();
    let site = Site::start(&["axum_orders"], &server.url());
    let id = site.create(0).id;
    assert_eq!(site.ship(0, id).status(), 200);
    let mut page = site.get(0, "locks");
    assert_eq!(page.status(), 200);
    let page = page.body_mut().read_to_string().unwrap();
    assert!(page.contains("order:&lt;id&gt;"), "{page}");
    site.instances.stop();
}

#[test]
fn readiness_follows_the_lock_server_and_liveness_does_not() {
    let mut server = Server::start();
    let site = Site::start(&["axum_orders", "actix_orders"], &server.url());
    let is_ready = |instance| site.get(instance, "ready").status() == 200;
    for instance in 0..2 {
        assert!(is_ready(instance));
    }
    server.kill();
    for instance in 0..2 {
        let mut answer = site.get(instance, "ready");
        assert_eq!(answer.status(), 503);
        let body = answer.body_mut().read_to_string().unwrap();
        assert!(body.contains("Service Unavailable"), "{body}");
        assert!(!body.contains("redis"), "{body}");
        assert_eq!(site.get(instance, "live").status(), 200);
    }
    server.restart();
    for instance in 0..2 {
        eventually("it is ready again", || is_ready(instance));
    }
    site.instances.stop();
}

#[test]
fn errors_are_problem_details() {
    let mut server = Server::start();
    let site = Site::start(&["axum_orders", "actix_orders"], &server.url());
    let problem = |instance: usize, id: i64, status: u16, title: &str, retry: Option<&str>| {
        let mut answer = site.ship(instance, id);
        let body = answer.body_mut().read_to_string().unwrap();
        assert_eq!(answer.status(), status, "{body}");
        assert!(
            body.contains(title) && body.contains(&status.to_string()),
            "{body}"
        );
        assert!(
            !body.contains("lock:") && !body.contains("127.0.0.1"),
            "{body}"
        );
        let header = |name| {
            answer
                .headers()
                .get(name)
                .map(|value| value.to_str().unwrap())
        };
        assert_eq!(header("content-type"), Some("application/problem+json"));
        assert_eq!(header("retry-after"), retry);
    };
    let on_both = |id: i64, status: u16, title: &str, retry: Option<&str>| {
        thread::scope(|scope| {
            scope.spawn(|| problem(0, id, status, title, retry));
            scope.spawn(|| problem(1, id, status, title, retry));
        });
    };
    let id = site.create(0).id;
    on_both(999, 404, "there is no order 999", None);
    assert_eq!(site.ship(0, id).status(), 200);
    on_both(id, 409, "has been shipped", None);
    server.query::<()>(&format!("SET lock:order:{id} other-client"));
    on_both(id, 423, "Locked", Some("1"));
    server.query::<()>(&format!("DEL lock:order:{id}"));

    let other = site.create(1).id;
    server.kill();
    on_both(other, 503, "Service Unavailable", Some("1"));
    assert!(!site.find(0, other).shipped, "orders can still be read");
    server.restart();
    assert_eq!(site.ship(0, other).status(), 200);
    site.instances.stop();
}
