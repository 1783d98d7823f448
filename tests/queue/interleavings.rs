//! Every order in which the requests of a few processes can arrive, on the real scripts: beside them runs
//! the model of a server, and the real one must say and do the same.

use lock_model::scene::{SCENES, SCENES_OF_A_NETWORK, all};
use lock_model::server::Rules;
use lock_model::stage::Stage;

use crate::support::server::Server;

#[test]
fn scenes() {
    let server = Server::start();
    let mut stage = Stage::open(&server.socket());
    let mut orders = 0;
    for scene in SCENES.iter().chain(SCENES_OF_A_NETWORK) {
        orders += scene.play(Rules::default(), |play| stage.play(play));
    }
    stage.end();
    println!("{orders} orders");
}

/// In four steps, or as many as `LOCK_STEPS` says.
#[test]
fn all_that_three_can_say() {
    let steps = std::env::var("LOCK_STEPS").map_or(4, |steps| steps.parse().unwrap());
    let server = Server::start();
    let mut stage = Stage::open(&server.socket());
    let plays = all(3, steps, Rules::default(), &mut |play| stage.play(play));
    stage.end();
    println!("{plays} plays of {steps} steps");
    if steps == 4 {
        assert_eq!(plays, 41_091);
    }
}
