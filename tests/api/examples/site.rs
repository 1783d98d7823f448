//! The order services on HTTP, and their client.

use serde::{Deserialize, Serialize};
use ureq::http::Response;
use ureq::{Agent, Body};

use super::instances::Instances;
use lock_test_support::time::{PATIENCE, millis};

#[derive(Serialize)]
struct NewOrder {
    item: &'static str,
}

#[derive(Deserialize)]
pub struct Order {
    pub id: i64,
    pub item: String,
    pub shipped: bool,
    pub parcels: Vec<i64>,
}

/// Instances of the service, and a client that keeps its connections open.
pub struct Site {
    pub instances: Instances,
    client: Agent,
}

impl Site {
    pub fn start(programs: &[&'static str], lock: &str) -> Self {
        let client = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            // Sooner than actix closes it, as it may while a request is on its way.
            .max_idle_age(millis(1000))
            .build()
            .into();
        Self {
            instances: Instances::start(programs, lock),
            client,
        }
    }

    pub fn create(&self, instance: usize) -> Order {
        let url = format!("{}/orders", self.instances.address(instance));
        let mut answer = self
            .client
            .post(url)
            .send_json(NewOrder { item: "teapot" })
            .unwrap();
        assert_eq!(answer.status(), 201);
        answer.body_mut().read_json().unwrap()
    }

    pub fn find(&self, instance: usize, id: i64) -> Order {
        let mut answer = self.get(instance, &format!("orders/{id}"));
        answer.body_mut().read_json().unwrap()
    }

    pub fn get(&self, instance: usize, path: &str) -> Response<Body> {
        let url = format!("{}/{path}", self.instances.address(instance));
        self.client.get(url).call().unwrap()
    }

    pub fn ship(&self, instance: usize, id: i64) -> Response<Body> {
        let url = format!("{}/orders/{id}/ship", self.instances.address(instance));
        self.client.post(url).send_empty().unwrap()
    }
}
