//! Plays every order in which requests of a few processes can arrive against the real scripts and the model
//! of the server, and compares their replies and messages.

use lock_model::mutations;
use lock_model::real_server::RealServer;
use lock_model::scenario::{SCENES, SCENES_OF_A_NETWORK, SHARED_SCENES, Trace, all};
use lock_model::server::{Rules, UNLIMITED};
use lock_model::walk::Walk;
use lock_model::world::{Faults, Setting};

use lock_test_support::rng::Rng;
use lock_test_support::server::Server;

/// The number of steps, which `LOCK_STEPS` raises.
fn steps() -> usize {
    std::env::var("LOCK_STEPS").map_or(3, |steps| steps.parse().unwrap())
}

/// Plays every seventh order, from a random one on, or all of them if `LOCK_STEPS` asks for more than three
/// steps.
#[test]
fn real_scripts_match_model_in_all_scenes() {
    let server = Server::start();
    let mut real = RealServer::open(&server.socket());
    let every = if steps() > 3 { 1 } else { 7 };
    let mut number = Rng::random().below(every);
    let mut play = |trace| {
        number += 1;
        if number.is_multiple_of(every) {
            real.play(trace);
        }
    };
    for scene in SCENES.iter().chain(SCENES_OF_A_NETWORK) {
        scene.play(Rules::default(), &mut play);
    }
    for scene in SHARED_SCENES {
        scene.play(scene.rules(Rules::default()), &mut play);
    }
    real.end();
    println!("one of {every} orders of {number}");
}

/// Takes three steps, or `LOCK_STEPS`.
#[test]
fn real_scripts_match_model_for_three_clients() {
    let steps = steps();
    let server = Server::start();
    let mut real = RealServer::open(&server.socket());
    for limits in [[1, 1, 1], [UNLIMITED, 1, UNLIMITED], [2, 3, UNLIMITED]] {
        let rules = Setting::default().with_limits(&limits).rules;
        let traces = all(3, steps, rules, &mut |trace| real.play(trace));
        println!("{traces} traces of {steps} steps, limits {limits:?}");
        assert!(steps != 4 || traces == 41_091, "{traces}");
    }
    real.end();
}

/// Takes 150 random walks, or `LOCK_WALKS`.
#[test]
fn real_scripts_match_model_in_random_faulty_walks() {
    let walks = std::env::var("LOCK_WALKS").map_or(150, |walks| walks.parse().unwrap());
    let server = Server::start();
    let mut real = RealServer::open(&server.socket());
    let faults = Faults {
        lost: 2,
        slow: 3,
        crash: 1,
        cancel: 2,
        pause: 1,
        renew: 3,
        fence: 2,
        ..Faults::NONE
    };
    let mut setting = Setting::new(4, 14, faults);
    setting.bounds.holds = 2;
    setting.conduct.in_order = false;
    let mut steps = 0;
    for limits in [[1; 4], [UNLIMITED, 1, UNLIMITED, 2], [2, 2, 3, 1]] {
        for trace in Walk::new(setting.with_limits(&limits), 1).take(walks) {
            steps += trace.steps.len();
            real.play(trace);
        }
    }
    real.end();
    println!("{steps} steps in {walks} walks");
}

/// Rules that clients omit have the same consequences on the real server. A model whose server omits a rule
/// differs from the real server.
#[test]
fn real_server_differs_only_from_model_without_server_rule() {
    let server = Server::start();
    let mut real = RealServer::open(&server.socket());
    for case in mutations::all() {
        let trace = case.counter_example().expect(case.what);
        // Grants of a real server are shorter than a tick.
        if case.with.rules.grant > 1 {
            continue;
        }
        let trace = Trace::of_events(&case.without, &trace.0);
        let difference = real.difference(trace);
        match case.is_of_the_server() {
            true => assert!(difference.is_some(), "{}", case.what),
            false => assert_eq!(difference, None, "{}", case.what),
        }
    }
    let _: () = server.query("FLUSHALL");
}
