SELECT pg_backend_pid(),
    coalesce((SELECT (extract(epoch FROM backend_start) * 1000000)::bigint
        FROM pg_stat_activity WHERE pid = pg_backend_pid()), 0),
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    current_setting('server_version_num')::int, version(),
    current_setting('transaction_isolation'), current_user::text
