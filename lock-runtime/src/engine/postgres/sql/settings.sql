WITH before AS MATERIALIZED (SELECT current_setting('synchronous_commit') AS synchronous_commit),
    locks AS MATERIALIZED (SELECT set_config('synchronous_commit',
        CASE synchronous_commit WHEN 'off' THEN 'on' ELSE synchronous_commit END, true) FROM before)
SELECT current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes,
    synchronous_commit,
    current_setting('autovacuum') AS autovacuum,
    (SELECT count(*) FROM pg_stat_replication) AS standbys,
    coalesce((SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::bigint FROM pg_stat_activity
        WHERE coalesce(backend_xmin, backend_xid) IS NOT NULL AND datname = current_database()
        AND backend_type <> 'autovacuum worker'), 0) AS oldest,
    distributed_lock.replicas_1() AS replicas
FROM before, locks
