use std::thread;

use ureq::Agent;

use super::program::Program;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::PATIENCE;

struct Instance {
    program: Program,
    address: String,
}

impl Instance {
    fn start(database: &Postgres) -> Self {
        let program = Program::start("postgres_orders", &["0"], Some(&database.url()));
        let line = program.line("listening on ");
        let address = line.strip_prefix("listening on ").unwrap().to_owned();
        Self { program, address }
    }

    fn post(&self, path: &str, body: &str) -> (u16, String) {
        let config = Agent::config_builder().http_status_as_error(false);
        let client: Agent = config.timeout_global(Some(PATIENCE)).build().into();
        let request = client.post(format!("{}{path}", self.address));
        let request = request.header("content-type", "application/json");
        let mut answer = request.send(body).unwrap();
        (
            answer.status().as_u16(),
            answer.body_mut().read_to_string().unwrap(),
        )
    }

    fn stop(self) {
        self.program.signal("INT");
        let lines = self.program.succeeds();
        assert_eq!(lines.last().unwrap(), "stopped");
    }
}

#[test]
fn commit_of_a_paused_instance_is_refused() {
    let database = Postgres::start();
    let (paused, other) = (Instance::start(&database), Instance::start(&database));
    let (created, _) = paused.post("/orders", "{\"item\": \"teapot\"}");
    assert_eq!(created, 201);
    thread::scope(|scope| {
        let late = scope.spawn(|| paused.post("/orders/1/ship", ""));
        paused.program.line("the carrier takes order 1");
        paused.program.signal("STOP");
        let (status, shipped) = other.post("/orders/1/ship", "");
        assert_eq!(status, 200, "{shipped}");
        paused.program.signal("CONT");
        let (status, text) = late.join().unwrap();
        assert_eq!(status, 409, "{text}");
        assert!(text.contains("another request"), "{text}");
    });
    // A parcel of a refused transaction would have taken a number, too, had it come as far as that.
    assert_eq!(
        database.query::<i64>("SELECT parcel FROM orders WHERE id = 1"),
        1
    );
    assert_eq!(database.query::<i64>("SELECT last_value FROM parcels"), 1);
    let (again, _) = other.post("/orders/1/ship", "");
    assert_eq!(again, 409);
    paused.stop();
    other.stop();
}
