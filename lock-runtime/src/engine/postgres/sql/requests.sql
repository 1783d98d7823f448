-- The requests, each of which is one call.

-- Acquires the locks of each call in turn until one is not available; says of each call how many it acquired, or nothing
-- if all of them acquired all. It waits for no transaction of a user, and for other requests only until they are committed.
CREATE OR REPLACE FUNCTION distributed_lock.acquire_1(
    names text[], tokens text[], limits int[], ttls bigint[], calls int[], replicas int, void_after bigint,
    OUT at bigint, OUT counts int[], OUT messages text[])
LANGUAGE plpgsql AS $$
DECLARE
    durably text := distributed_lock.begin_1(names, replicas);
    -- The calls for locks that have a holder, or a waiter, or that another of these calls is for.
    contended int[] := calls;
    refused int := 0;
    number bigint;
BEGIN
    at := distributed_lock.micros_1(clock_timestamp());
    IF at > void_after THEN
        RAISE EXCEPTION 'the request came too late' USING ERRCODE = 'DL002';
    END IF;
    IF cardinality(names) = 1 OR cardinality(names) = (SELECT count(DISTINCT n COLLATE "C") FROM unnest(names) n) THEN
        -- Not `EXISTS`, for which the server may read the whole table at once.
        contended := ARRAY(SELECT u.call FROM unnest(names, calls) u(name, call)
            WHERE (SELECT true FROM distributed_lock.held h WHERE h.name = u.name LIMIT 1)
                OR (SELECT true FROM distributed_lock.waiting w WHERE w.name = u.name LIMIT 1));
        -- No request for these locks runs beside this one: the number is greater than that of every hold before.
        number := distributed_lock.number_1();
        INSERT INTO distributed_lock.held
            SELECT names[i], tokens[i], limits[i], number, clock_timestamp() + ttls[i] * interval '1 microsecond'
            FROM generate_series(1, cardinality(names)) i WHERE calls[i] <> ALL (contended);
        IF contended = '{}' THEN
            RETURN;
        END IF;
    END IF;
    counts := array_fill(0, ARRAY[calls[cardinality(calls)]]);
    messages := '{}';
    FOR i IN 1..cardinality(names) LOOP
        IF calls[i] <> ALL (contended) THEN
            counts[calls[i]] := counts[calls[i]] + 1;
            CONTINUE;
        END IF;
        CONTINUE WHEN calls[i] = refused;
        refused := calls[i];
        IF EXISTS (SELECT FROM distributed_lock.waiting w WHERE w.name = names[i]) THEN
            messages := messages || distributed_lock.admit_1(names[i], '', durably);
            -- A newcomer passes no waiter.
            CONTINUE WHEN EXISTS (SELECT FROM distributed_lock.waiting w WHERE w.name = names[i]);
        END IF;
        CONTINUE WHEN NOT distributed_lock.has_room_1(names[i], limits[i]);
        INSERT INTO distributed_lock.held VALUES (names[i], tokens[i], limits[i],
            distributed_lock.number_1(), clock_timestamp() + ttls[i] * interval '1 microsecond');
        counts[calls[i]] := counts[calls[i]] + 1;
        refused := 0;
    END LOOP;
END $$;

-- Acquires one lock. Answers with one array, since a record of several columns costs more: the time, the number of locks
-- acquired, and the messages.
CREATE OR REPLACE FUNCTION distributed_lock.acquire_one_1(
    lock_name text, mine text, most int, my_ttl bigint, replicas int, void_after bigint)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    at bigint;
BEGIN
    IF replicas = 0 AND distributed_lock.begin_one_1(lock_name) THEN
        at := distributed_lock.micros_1(clock_timestamp());
        INSERT INTO distributed_lock.held
            SELECT lock_name, mine, most, distributed_lock.number_1(), clock_timestamp() + my_ttl * interval '1 microsecond'
            WHERE at <= void_after AND NOT EXISTS (SELECT FROM distributed_lock.held h WHERE h.name = lock_name)
                AND NOT EXISTS (SELECT FROM distributed_lock.waiting w WHERE w.name = lock_name);
        IF FOUND THEN
            RETURN ARRAY[at::text, '1'];
        END IF;
    END IF;
    RETURN (SELECT ARRAY[a.at::text, coalesce(a.counts[1], 1)::text] || a.messages FROM distributed_lock.acquire_1(
        ARRAY[lock_name], ARRAY[mine], ARRAY[most], ARRAY[my_ttl], ARRAY[1], replicas, void_after) a);
END $$;

-- 0: void; 1: granted now; 2: waits; 3: granted before.
CREATE OR REPLACE FUNCTION distributed_lock.wait_1(
    lock_name text, mine text, most int, my_ttl bigint, my_channel text, alive bigint, void_after bigint,
    OUT answer int, OUT at bigint, OUT time_left bigint, OUT ahead bigint, OUT others boolean, OUT holder text,
    OUT messages text[])
LANGUAGE plpgsql AS $$
DECLARE
    durably text := distributed_lock.begin_1(ARRAY[lock_name], 0);
    t timestamptz := clock_timestamp();
    until timestamptz;
    my_place bigint;
    first distributed_lock.waiting;
    is_new boolean;
BEGIN
    at := distributed_lock.micros_1(t);
    messages := '{}';
    IF at > void_after THEN
        answer := 0;
        RETURN;
    END IF;
    SELECT h.expires_at INTO until FROM distributed_lock.held h WHERE h.name = lock_name AND h.token = mine;
    IF until > t THEN
        answer := 3;
        time_left := distributed_lock.micros_1(until) - at;
        RETURN;
    END IF;
    -- No client relies on its place in a queue; a grant turns it on again.
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE distributed_lock.waiting w
        SET asked_at = t, alive_until = t + alive * interval '1 microsecond', channel = my_channel
        WHERE w.name = lock_name AND w.token = mine RETURNING w.place INTO my_place;
    is_new := NOT FOUND;
    IF is_new THEN
        IF EXISTS (SELECT FROM distributed_lock.taken k
            WHERE k.name = lock_name AND k.token = mine AND k.expires_at > t)
        THEN
            answer := 0;
            RETURN;
        END IF;
        INSERT INTO distributed_lock.waiting (name, token, max_holders, ttl, asked_at, alive_until, channel)
            VALUES (lock_name, mine, most, my_ttl, t, t + alive * interval '1 microsecond', my_channel)
            RETURNING place INTO my_place;
    END IF;
    messages := distributed_lock.admit_1(lock_name, mine, durably);
    SELECT h.expires_at INTO until FROM distributed_lock.held h
        WHERE h.name = lock_name AND h.token = mine AND h.expires_at > t;
    IF FOUND THEN
        answer := 1;
        time_left := my_ttl;
        RETURN;
    END IF;
    answer := 2;
    -- What is in the way: the first lease of those that share the lock like this one, or else the last.
    SELECT CASE WHEN most > 1 AND min(h.max_holders) > 1 THEN min(h.expires_at) ELSE max(h.expires_at) END, min(h.token)
        INTO until, holder FROM distributed_lock.held h WHERE h.name = lock_name;
    -- What is pinned beyond its lease will not be free at once.
    time_left := CASE WHEN until > t THEN distributed_lock.micros_1(until) - at ELSE 100000 END;
    SELECT count(*) FILTER (WHERE w.place < my_place), count(*) > 1 INTO ahead, others
        FROM distributed_lock.waiting w WHERE w.name = lock_name;
    SELECT * INTO first FROM distributed_lock.waiting w WHERE w.name = lock_name ORDER BY w.place LIMIT 1;
    IF most > 1 AND first.place < my_place AND distributed_lock.has_room_1(lock_name, most) THEN
        -- The first, which does not fit beside the holders, is in the way only as long as it asks.
        until := least(first.alive_until, first.asked_at + interval '1.5 s');
        time_left := least(time_left, CASE WHEN until > t THEN distributed_lock.micros_1(until) - at ELSE 190000 END);
    END IF;
    IF is_new AND ahead = 1 AND first.channel IS NOT NULL THEN
        messages := messages || format('%s others %s', first.channel, first.token);
    END IF;
END $$;

-- Ends a hold; says until when it had the lock, or none if it did not. Waits for a renewal, and not for a transaction
-- that pins it: then it ends with that transaction, and is not handed on before.
CREATE OR REPLACE FUNCTION distributed_lock.end_1(lock_name text, mine text) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz;
BEGIN
    -- Mostly no other transaction has the row.
    DELETE FROM distributed_lock.held WHERE ctid = (
        SELECT h.ctid FROM distributed_lock.held h
            WHERE h.name = lock_name AND h.token = mine FOR UPDATE OF h SKIP LOCKED)
        RETURNING expires_at INTO until;
    IF FOUND THEN
        RETURN until;
    END IF;
    SELECT h.expires_at INTO until FROM distributed_lock.held h
        WHERE h.name = lock_name AND h.token = mine FOR NO KEY UPDATE;
    IF FOUND THEN
        PERFORM FROM distributed_lock.held h WHERE h.name = lock_name AND h.token = mine FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            DELETE FROM distributed_lock.held h WHERE h.name = lock_name AND h.token = mine;
        ELSE
            UPDATE distributed_lock.held h SET expires_at = 'epoch' WHERE h.name = lock_name AND h.token = mine;
        END IF;
    END IF;
    RETURN until;
END $$;

-- Frees locks, or hands them on; says of each whether it was held. `leaves`: and leaves its queue.
CREATE OR REPLACE FUNCTION distributed_lock.release_1(
    names text[], tokens text[], leaves boolean[], OUT at bigint, OUT held boolean[], OUT messages text[])
LANGUAGE plpgsql AS $$
DECLARE
    durably text := distributed_lock.begin_1(names, 0);
    t timestamptz := clock_timestamp();
    rows tid[];
    ended int;
    until timestamptz;
    changed boolean;
BEGIN
    at := distributed_lock.micros_1(t);
    -- A release that a crash of the server undoes costs others a ttl, and gives no lock to two holders.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- At once: the locks for which nothing waits, and whose rows no transaction has, or has had. The subqueries make the
    -- server look each of them up, whatever the size of the table.
    rows := ARRAY(SELECT CASE WHEN (SELECT true FROM distributed_lock.waiting w WHERE w.name = names[i] LIMIT 1) IS NULL
        THEN (SELECT h.ctid FROM distributed_lock.held h
            WHERE h.name = names[i] AND h.token = tokens[i] AND h.expires_at > t AND h.xmax = 0 AND NOT leaves[i])
        END FROM generate_series(1, cardinality(names)) i);
    DELETE FROM distributed_lock.held h WHERE h.ctid = ANY (rows);
    GET DIAGNOSTICS ended = ROW_COUNT;
    held := array_fill(true, ARRAY[cardinality(names)]);
    IF ended = cardinality(names) THEN
        RETURN;
    END IF;
    IF ended < cardinality(array_remove(rows, NULL)) THEN
        RAISE EXCEPTION 'a transaction has changed a holder meanwhile' USING ERRCODE = '55P03';
    END IF;
    messages := '{}';
    FOR i IN 1..cardinality(names) LOOP
        CONTINUE WHEN rows[i] IS NOT NULL;
        changed := false;
        IF leaves[i] THEN
            DELETE FROM distributed_lock.waiting w WHERE w.name = names[i] AND w.token = tokens[i];
            changed := FOUND;
        END IF;
        until := distributed_lock.end_1(names[i], tokens[i]);
        held[i] := coalesce(until > t, false);
        IF changed OR until IS NOT NULL THEN
            messages := messages || distributed_lock.admit_1(names[i], NULL, durably);
        END IF;
    END LOOP;
END $$;

-- Frees one lock, or hands it on. Answers like `acquire_one_1`, with the number of locks that were held.
CREATE OR REPLACE FUNCTION distributed_lock.release_one_1(lock_name text, mine text) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := clock_timestamp();
    durably text;
    setting text;
    until timestamptz;
    messages text[];
BEGIN
    IF distributed_lock.begin_one_1(lock_name) THEN
        DELETE FROM distributed_lock.held h
            WHERE h.name = lock_name AND h.token = mine AND h.expires_at > t AND h.xmax = 0
                AND NOT EXISTS (SELECT FROM distributed_lock.waiting w WHERE w.name = lock_name);
        IF FOUND THEN
            setting := set_config('synchronous_commit', 'off', true);
            RETURN ARRAY[distributed_lock.micros_1(t)::text, '1'];
        END IF;
        -- The general function would look for that again.
        durably := current_setting('synchronous_commit');
        setting := set_config('synchronous_commit', 'off', true);
        until := distributed_lock.end_1(lock_name, mine);
        IF until IS NOT NULL THEN
            messages := distributed_lock.admit_1(lock_name, NULL, durably);
        END IF;
        RETURN ARRAY[distributed_lock.micros_1(t)::text, coalesce(until > t, false)::int::text] || messages;
    END IF;
    RETURN (SELECT ARRAY[r.at::text, r.held[1]::int::text] || r.messages
        FROM distributed_lock.release_1(ARRAY[lock_name], ARRAY[mine], ARRAY[false]) r);
END $$;

-- Sends messages, each of a channel, a space and a text. In a transaction of its own: one that notifies keeps others that
-- do waiting until it is committed, and this one is not flushed.
CREATE OR REPLACE FUNCTION distributed_lock.notify_1(messages text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '0', true);
    PERFORM pg_notify(split_part(m, ' ', 1), substr(m, strpos(m, ' ') + 1)) FROM unnest(messages) m;
END $$;

-- Gives each lock that is still held its whole ttl again; says which were.
CREATE OR REPLACE FUNCTION distributed_lock.renew_1(names text[], tokens text[], ttls bigint[], replicas int)
RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM distributed_lock.begin_1('{}', replicas);
    RETURN QUERY
        UPDATE distributed_lock.held h SET expires_at = clock_timestamp() + u.ttl * interval '1 microsecond'
        FROM unnest(names, tokens, ttls) u(name, token, ttl)
        WHERE h.name = u.name AND h.token = u.token AND h.expires_at > clock_timestamp()
        RETURNING h.token;
END $$;

-- A new fencing token; none if the lock is not held. The update makes the commit wait until the number is flushed.
CREATE OR REPLACE FUNCTION distributed_lock.fence_1(lock_name text, mine text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    mark bigint;
BEGIN
    PERFORM distributed_lock.begin_1('{}', 0);
    UPDATE distributed_lock.held h SET expires_at = h.expires_at
        WHERE h.name = lock_name AND h.token = mine AND h.expires_at > clock_timestamp()
        RETURNING distributed_lock.number_1() INTO mark;
    RETURN mark;
END $$;

-- The numbers by which a transaction recognizes these holders; none unless all the locks are held.
CREATE OR REPLACE FUNCTION distributed_lock.numbers_1(names text[], tokens text[]) RETURNS bigint[] LANGUAGE sql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT array_agg(h.fence ORDER BY u.place) FROM unnest(names, tokens) WITH ORDINALITY u(name, token, place)
        JOIN distributed_lock.held h ON h.name = u.name AND h.token = u.token
        WHERE h.expires_at > clock_timestamp()
        HAVING count(*) = cardinality(names)
$$;

-- Turns an exclusive holder into one that shares the lock, under another token; says for how long it holds the lock,
-- or none if the lock was not held. Running it again prolongs nothing.
CREATE OR REPLACE FUNCTION distributed_lock.downgrade_1(
    lock_name text, mine text, next text, most int, my_ttl bigint, OUT time_left bigint, OUT messages text[])
LANGUAGE plpgsql AS $$
DECLARE
    durably text := distributed_lock.begin_1(ARRAY[lock_name], 0);
    t timestamptz := clock_timestamp();
BEGIN
    messages := '{}';
    SELECT distributed_lock.micros_1(h.expires_at) - distributed_lock.micros_1(t) INTO time_left
        FROM distributed_lock.held h WHERE h.name = lock_name AND h.token = next AND h.expires_at > t;
    IF FOUND THEN
        RETURN;
    END IF;
    IF distributed_lock.end_1(lock_name, mine) > clock_timestamp() THEN
        -- A transaction that was to run under the exclusive lock does not recognize the new number.
        INSERT INTO distributed_lock.held VALUES (lock_name, next, most, distributed_lock.number_1(),
            t + my_ttl * interval '1 microsecond');
        time_left := my_ttl;
        messages := distributed_lock.admit_1(lock_name, NULL, durably);
    END IF;
END $$;

-- For the transactions of users: fails unless these locks are held by the holders with these numbers. Otherwise no lock
-- that one of them excludes is granted before the transaction has ended, whatever becomes of the lease.
CREATE OR REPLACE FUNCTION distributed_lock.ensure(names text[], numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    pinned int;
BEGIN
    PERFORM FROM unnest(names, numbers) u(name, number)
        JOIN distributed_lock.held h ON h.name = u.name AND h.fence = u.number
        WHERE h.expires_at > clock_timestamp()
        ORDER BY h.name FOR KEY SHARE OF h;
    GET DIAGNOSTICS pinned = ROW_COUNT;
    IF pinned = 0 OR pinned < cardinality(names) THEN
        RAISE EXCEPTION 'the lock is not held any more: % of % are', pinned, cardinality(names) USING ERRCODE = 'DL001',
            HINT = 'Another holder may have the lock: roll back, and acquire the lock again.';
    END IF;
END $$;

-- Forgets what ended long ago; says whether there is more.
CREATE OR REPLACE FUNCTION distributed_lock.clean_1() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    holders int;
    waiters int;
BEGIN
    DELETE FROM distributed_lock.held h USING (
        SELECT x.name, x.token FROM distributed_lock.held x
            WHERE x.expires_at < clock_timestamp() - interval '1 hour' LIMIT 1000 FOR UPDATE SKIP LOCKED
    ) ended WHERE h.name = ended.name AND h.token = ended.token;
    GET DIAGNOSTICS holders = ROW_COUNT;
    DELETE FROM distributed_lock.waiting w USING (
        SELECT x.name, x.place FROM distributed_lock.waiting x
            WHERE x.alive_until < clock_timestamp() - interval '1 hour' LIMIT 1000 FOR UPDATE SKIP LOCKED
    ) ended WHERE w.name = ended.name AND w.place = ended.place;
    GET DIAGNOSTICS waiters = ROW_COUNT;
    RETURN holders = 1000 OR waiters = 1000;
END $$;

-- By this, clients know that all is there.
COMMENT ON SCHEMA distributed_lock IS 'distributed locks, version 1';
