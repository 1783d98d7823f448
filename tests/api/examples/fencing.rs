use super::program::Program;
use lock_test_support::server::Server;

#[test]
fn fencing_in_memory_rejects_stale_write() {
    shows_a_refused_write(&Program::start("fencing", &[], None).succeeds());
}

#[test]
fn fencing_on_server_rejects_stale_write() {
    let server = Server::start();
    shows_a_refused_write(&Program::start("fencing", &[], Some(&server.url())).succeeds());
}

fn shows_a_refused_write(lines: &[String]) {
    let story = lines.join("\n");
    println!("{story}");
    let token = |name: &str| {
        let (_, rest) = story
            .split_once(&format!("{name}  has the lock and the token "))
            .unwrap();
        rest.split_once(',').unwrap().0.parse::<u64>().unwrap()
    };
    assert!(token("second") > token("first "));
    let order = [
        "first   is paused",
        "second  is accepted",
        "first   wakes up",
        "first   is refused",
        "valid = false",
        "With fencing the price is 120",
        "Without it would be 80",
    ];
    let places = order.map(|part| story.find(part).unwrap_or_else(|| panic!("no `{part}`")));
    assert!(places.is_sorted(), "{places:?}");
}
