-- What operators see and do. No call needs it.

-- The reports of processes. A crash of the server empties it, and they report again.
CREATE UNLOGGED TABLE IF NOT EXISTS distributed_lock.process (
    -- Seven hexadecimal digits, which are a part of each token that the process makes.
    id      text COLLATE "C" PRIMARY KEY,
    report  text        NOT NULL,
    seen_at timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1,
        autovacuum_vacuum_cost_delay = 0);

-- Stores a report in place of the one before, and forgets those that are older than 180 s.
CREATE OR REPLACE FUNCTION distributed_lock.report_1(process_id text, words text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM distributed_lock.begin_1('{}', 0), set_config('synchronous_commit', 'off', true);
    INSERT INTO distributed_lock.process VALUES (process_id, words, clock_timestamp())
        ON CONFLICT (id) DO UPDATE SET report = excluded.report, seen_at = excluded.seen_at;
    DELETE FROM distributed_lock.process p USING (
        SELECT x.id FROM distributed_lock.process x
            WHERE x.seen_at < clock_timestamp() - interval '180 s' LIMIT 1000 FOR UPDATE SKIP LOCKED
    ) old WHERE p.id = old.id;
END $$;

-- Takes a lock from the holder with that token, which also leaves the queue and enters it no more, and gives it to the next.
-- `pinned`: a transaction has the row, and no other gets the lock before it ends. `number` is
-- greater than those of the holder, and not less than `at_least`.
CREATE OR REPLACE FUNCTION distributed_lock.take_1(lock_name text, whose text, at_least bigint,
    OUT held boolean, OUT pinned boolean, OUT number bigint, OUT messages text[])
LANGUAGE plpgsql AS $$
DECLARE
    durably text := distributed_lock.begin_1(ARRAY[lock_name], 0);
    t timestamptz := clock_timestamp();
    until timestamptz;
    waited boolean;
BEGIN
    messages := '{}';
    IF at_least > distributed_lock.micros_1(t + interval '1 day') THEN
        RAISE EXCEPTION 'the number % is far ahead of the clock', at_least USING ERRCODE = '22023';
    END IF;
    DELETE FROM distributed_lock.taken k USING (
        SELECT x.name, x.token FROM distributed_lock.taken x WHERE x.expires_at < t FOR UPDATE SKIP LOCKED
    ) old WHERE k.name = old.name AND k.token = old.token;
    INSERT INTO distributed_lock.taken VALUES (lock_name, whose, t + interval '50 s')
        ON CONFLICT (name, token) DO UPDATE SET expires_at = excluded.expires_at;
    DELETE FROM distributed_lock.waiting w WHERE w.name = lock_name AND w.token = whose;
    waited := FOUND;
    until := distributed_lock.end_1(lock_name, whose);
    held := coalesce(until > t, false);
    pinned := EXISTS (SELECT FROM distributed_lock.held h WHERE h.name = lock_name AND h.token = whose);
    number := distributed_lock.number_1();
    IF number < at_least THEN
        number := distributed_lock.number_from_1(at_least);
    END IF;
    IF waited OR until IS NOT NULL THEN
        messages := distributed_lock.admit_1(lock_name, NULL, durably);
    END IF;
END $$;

-- What a token says: the process that made it, and when. Null: it is another client's.
CREATE OR REPLACE FUNCTION distributed_lock.process_of_1(token text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN token ~ '^[0-9a-f]{12}8[0-9a-f]{3}[89ab][0-9a-f]{15}(/|$)' THEN substr(token, 6, 7) END
$$;

CREATE OR REPLACE FUNCTION distributed_lock.made_at_1(token text) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN distributed_lock.process_of_1(token) IS NOT NULL THEN
        to_timestamp((('x' || lpad(substr(token, 17, 11), 16, '0'))::bit(64)::bigint & ((1::bigint << 42) - 1)) / 1000.0)
    END
$$;

-- For psql: who holds locks and who waits for them. It shows no token, with which the lock could be taken.
CREATE OR REPLACE VIEW distributed_lock.locks AS
    SELECT c.name, c.state,
        CASE
            WHEN split_part(p.report, chr(9), 1) = '1' THEN concat_ws(' ', left(split_part(p.report, chr(9), 2), 200),
                nullif(left(split_part(p.report, chr(9), 3), 200), ''), 'at', left(split_part(p.report, chr(9), 4), 200)
                || ', pid ' || left(split_part(p.report, chr(9), 5), 20))
            ELSE coalesce('process ' || distributed_lock.process_of_1(c.token), 'another client')
        END AS process,
        distributed_lock.made_at_1(c.token) AS since, c.lease_left, c.place
    FROM (
        SELECT h.name, h.token, 'holds' AS state, NULL::bigint AS place,
            CASE WHEN isfinite(h.expires_at) THEN h.expires_at - clock_timestamp() END AS lease_left
        FROM distributed_lock.held h WHERE h.expires_at > clock_timestamp()
        UNION ALL
        SELECT w.name, w.token, 'waits', row_number() OVER (PARTITION BY w.name ORDER BY w.place), NULL
        FROM distributed_lock.waiting w WHERE w.alive_until > clock_timestamp()
    ) c LEFT JOIN distributed_lock.process p
        ON p.id = distributed_lock.process_of_1(c.token) AND p.seen_at > clock_timestamp() - interval '180 s';

