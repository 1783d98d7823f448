use super::Space;

pub(super) async fn names_that_begin_so_are_listed(space: Space) {
    let peer = space.peer().await;
    let long = format!("long:{}", "ä".repeat(600));
    let mut held = Vec::new();
    for key in ["a", &long] {
        held.push(peer.read(key).await);
    }
    let (ended, dead, queue) = (peer.name("ended"), peer.name("dead"), peer.name("queue"));
    space.execute(&format!(
        "INSERT INTO distributed_lock.held SELECT '{ended}', 'x', 1, 1, now() - interval '1 s';
         INSERT INTO distributed_lock.waiting (name, token, max_holders, ttl, asked_at, alive_until)
             SELECT name, 'x', 1, 1, now(), until FROM (VALUES
                 ('{dead}', now() - interval '1 s'), ('{queue}', now() + interval '1 h')) n(name, until)",
    ));
    let all = peer.keys("", 9).await;
    assert_eq!([&*all[0], &*all[2]], ["a", "queue"], "{all:?}");
    assert!(all[1].starts_with("long:ä"), "{}", all[1]);
    assert_eq!(all.len(), 3);
    let [holders, _] = peer.view(&all[1]).await;
    assert_eq!(holders.len(), 1, "it names the same lock");
    for none in ["%", "a\u{1}"] {
        assert!(peer.keys(none, 9).await.is_empty(), "{none}");
    }
    space.execute("TRUNCATE distributed_lock.held, distributed_lock.waiting");
}

pub(super) async fn lock_with_many_holders_is_listed_once(space: Space) {
    let (peer, prefix) = (space.peer().await, &space.prefix);
    space.execute(&format!(
        "INSERT INTO distributed_lock.held SELECT '{prefix}' || n % 1000, n, 2047, n, now() + interval '1 h'
             FROM generate_series(1, 5000) n",
    ));
    assert_eq!(peer.keys("5", 9).await.len(), 9);
    assert_eq!(peer.keys("", 2000).await.len(), 1000);
    space.execute("TRUNCATE distributed_lock.held");
}
