BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT distributed_lock.set_1(true);
SELECT distributed_lock.acquire_one_1(name, 'holder', 1, 1000000, 0, at),
    distributed_lock.wait_1(name, 'waiter', 1, 1000000, NULL, 1000000, at),
    distributed_lock.release_one_1(name, 'holder')
FROM (SELECT 'distributed_lock trial ' || pg_backend_pid(),
    distributed_lock.micros_1(clock_timestamp()) + 60000000) trial(name, at);
ROLLBACK
