use super::program::Program;
use lock_test_support::server::Server;

fn term(program: &Program) -> u64 {
    let line = program.line("leads in term ");
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn next_replica_leads_after_stop_kill_and_pause() {
    let server = Server::start();
    let url = server.url();
    let replica = |name: &'static str| {
        let program = Program::start("leader", &[name], Some(&url));
        program.line("is ready");
        program
    };
    let first = replica("a");
    let mut last = term(&first);
    let mut leads = |program: &Program| {
        let term = term(program);
        assert!(term > last, "{term} after {last}");
        last = term;
    };
    let second = replica("b");
    first.terminate();
    leads(&second);
    assert!(first.end().status.success());
    let third = replica("c");
    // Killed.
    drop(second);
    leads(&third);
    let fourth = replica("d");
    third.signal("STOP");
    leads(&fourth);
    third.signal("CONT");
    third.line("is deposed");
    third.terminate();
    assert!(third.end().status.success());
    fourth.terminate();
    assert!(fourth.end().status.success());
}
