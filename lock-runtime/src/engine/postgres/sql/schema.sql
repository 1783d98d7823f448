-- Distributed locks, schema version 1. All of it can be run again, while clients go on.
DO $$ BEGIN
    IF to_regnamespace('distributed_lock') IS NULL THEN
        CREATE SCHEMA distributed_lock;
    END IF;
END $$;

-- The last number drawn.
CREATE SEQUENCE IF NOT EXISTS distributed_lock.fence AS bigint;

-- The holders of locks. A transaction that has the row of a holder FOR KEY SHARE pins it: the row stays until it ends.
CREATE TABLE IF NOT EXISTS distributed_lock.held (
    name        text COLLATE "C" NOT NULL,
    token       text COLLATE "C" NOT NULL,
    -- The greatest number of holders while this one has the lock; 2047: any number.
    max_holders int         NOT NULL,
    -- Greater than that of every holder before: one that has had the lock twice is not the same.
    fence       bigint      NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (name, token)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1,
        autovacuum_vacuum_cost_delay = 0);

CREATE OR REPLACE FUNCTION distributed_lock.micros_1(t timestamptz) RETURNS bigint LANGUAGE sql STABLE AS
$$ SELECT (date_part('epoch', t) * 1000000)::bigint $$;

-- Moves the sequence of numbers up to this one, unless it is there, and draws a number. One at a time, or the slower one
-- could move it back. The lock is not the transaction's, which may stay open if its client is cut off: all locks would wait
-- for it.
CREATE OR REPLACE FUNCTION distributed_lock.number_from_1(lowest bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
    mutex constant bigint := hashtextextended('distributed_lock fence', 0);
BEGIN
    -- A request that is canceled while it waits may have the mutex nevertheless.
    PERFORM pg_advisory_lock(mutex);
    -- A scan of the sequence would be compiled, since scans are dear: that takes 40 ms.
    IF coalesce(pg_sequence_last_value('distributed_lock.fence'), 0) < lowest THEN
        PERFORM setval('distributed_lock.fence', lowest);
    END IF;
    number := nextval('distributed_lock.fence');
    PERFORM pg_advisory_unlock(mutex);
    RETURN number;
EXCEPTION WHEN OTHERS OR query_canceled THEN
    PERFORM pg_advisory_unlock(mutex);
    RAISE;
END $$;

-- A number greater than all before it, also than those that a failover has lost: it is moved up to the clock, in
-- microseconds, if it is more than 0.1 s behind. It never gets ahead, since numbers are drawn less often.
CREATE OR REPLACE FUNCTION distributed_lock.number_1() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    number bigint := nextval('distributed_lock.fence');
    present bigint := distributed_lock.micros_1(clock_timestamp());
BEGIN
    IF number < present - 100000 THEN
        number := distributed_lock.number_from_1(present);
    END IF;
    RETURN number;
END $$;

-- The queues. A crash of the server empties them, and waiters ask again. A sequence of their own would be as unlogged,
-- and a standby that is promoted before it has written that to its disk could not read it.
CREATE UNLOGGED TABLE IF NOT EXISTS distributed_lock.waiting (
    name        text COLLATE "C" NOT NULL,
    place       bigint      NOT NULL DEFAULT distributed_lock.number_1(),
    token       text COLLATE "C" NOT NULL,
    max_holders int         NOT NULL,
    ttl         bigint      NOT NULL,
    asked_at    timestamptz NOT NULL,
    alive_until timestamptz NOT NULL,
    -- Where the process listens; none if it does not.
    channel     text,
    PRIMARY KEY (name, place)
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1,
        autovacuum_vacuum_cost_delay = 0);

-- The tokens from which a lock was taken lately, which enter its queue no more. An acquisition is sent once, so that the
-- token of one that comes later is not known yet.
CREATE TABLE IF NOT EXISTS distributed_lock.taken (
    name       text COLLATE "C" NOT NULL,
    token      text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (name, token)
);

-- How many standbys acknowledge a commit. Without backslashes, which may be escapes: `standard_conforming_strings`.
CREATE OR REPLACE FUNCTION distributed_lock.replicas_1() RETURNS int LANGUAGE sql AS $$
    SELECT CASE
        WHEN current_setting('synchronous_commit') IN ('off', 'local') OR names = '' THEN 0
        ELSE coalesce(substring(names FROM '^[[:space:]]*(?:[a-zA-Z]+[[:space:]]+)?([0-9]+)[[:space:]]*[(]')::int, 1)
    END FROM current_setting('synchronous_standby_names') names
$$;

-- The settings of requests: a plan that fits tables of any size, and is kept; short waits for rows. `is_local`: until
-- the end of the transaction.
CREATE OR REPLACE FUNCTION distributed_lock.set_1(is_local boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('enable_seqscan', 'off', is_local), set_config('enable_bitmapscan', 'off', is_local),
        set_config('enable_hashjoin', 'off', is_local), set_config('enable_mergejoin', 'off', is_local),
        set_config('enable_indexscan', 'on', is_local), set_config('enable_tidscan', 'on', is_local),
        set_config('plan_cache_mode', 'force_generic_plan', is_local), set_config('jit', 'off', is_local),
        set_config('lock_timeout', '150ms', is_local),
        set_config('default_transaction_isolation', 'read committed', is_local),
        set_config('lock_runtime.settings', 'set', is_local);
END $$;

-- Whether a connection of its own, with the settings of requests, now has the mutex of a lock: this is what most requests
-- find. It is part of the expression that it stands in.
CREATE OR REPLACE FUNCTION distributed_lock.begin_one_1(lock_name text) RETURNS boolean LANGUAGE sql AS $$
    SELECT current_setting('lock_runtime.settings', true) = 'set' AND current_setting('synchronous_commit') <> 'off'
        AND pg_try_advisory_xact_lock(hashtextextended('distributed_lock ' || lock_name, 0))
$$;

-- What every request begins with. Each statement of a function must see what was committed before it, what is
-- believed must be flushed, and the requests for one lock must run one after the other. Says how commits are flushed.
CREATE OR REPLACE FUNCTION distributed_lock.begin_1(names text[], replicas int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    give_up constant timestamptz := clock_timestamp() + interval '150 ms';
    mutex bigint;
BEGIN
    -- A connection that is not shared has its settings already.
    IF current_setting('lock_runtime.settings', true) IS DISTINCT FROM 'set' THEN
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE EXCEPTION 'locks need the isolation level READ COMMITTED: set `default_transaction_isolation` for the role'
                USING ERRCODE = '25001';
        END IF;
        PERFORM distributed_lock.set_1(true);
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF replicas > 0 AND replicas > distributed_lock.replicas_1() THEN
        RAISE EXCEPTION 'only % synchronous standbys acknowledge a lock that needs %: set `synchronous_standby_names`',
            distributed_lock.replicas_1(), replicas USING ERRCODE = 'DL003';
    END IF;
    WHILE cardinality(names) <> 1 OR NOT pg_try_advisory_xact_lock(hashtextextended('distributed_lock ' || names[1], 0))
    LOOP
        -- Those before it are taken, and taking them again does no harm.
        mutex := (SELECT m FROM (
            SELECT DISTINCT hashtextextended('distributed_lock ' || n, 0) AS m FROM unnest(names) n ORDER BY 1
        ) AS mutexes WHERE NOT pg_try_advisory_xact_lock(m) LIMIT 1);
        EXIT WHEN mutex IS NULL;
        -- The timeout is that of one wait, and there may be several.
        PERFORM set_config('lock_timeout',
            greatest(1, distributed_lock.micros_1(give_up) - distributed_lock.micros_1(clock_timestamp())) / 1000 + 1
            || 'ms', true);
        PERFORM pg_advisory_xact_lock(mutex);
    END LOOP;
    RETURN current_setting('synchronous_commit');
END $$;

-- Whether a lock has room for one more holder with that limit. Removes holders whose lease has ended, except those
-- that a transaction pins.
CREATE OR REPLACE FUNCTION distributed_lock.has_room_1(lock_name text, most int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    holders int;
    lowest int;
    stale boolean;
BEGIN
    SELECT count(*), min(h.max_holders), bool_or(h.expires_at <= clock_timestamp()) INTO holders, lowest, stale
        FROM distributed_lock.held h WHERE h.name = lock_name;
    IF stale THEN
        DELETE FROM distributed_lock.held h USING (
            SELECT x.token FROM distributed_lock.held x
                WHERE x.name = lock_name AND x.expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED
        ) ended WHERE h.name = lock_name AND h.token = ended.token;
        SELECT count(*), min(h.max_holders) INTO holders, lowest
            FROM distributed_lock.held h WHERE h.name = lock_name;
    END IF;
    RETURN least(most, lowest) = 2047 OR holders < least(most, lowest);
END $$;

-- Gives a lock to the first in its queue, and to those right behind that fit. The others are granted it for 2 s at
-- first, and are to hear of it; `asker` knows. It is null for a holder that hands the lock on, and '' for a newcomer: only a
-- lease that ended by itself leaves room to an asker. The first should have asked then. If it has been silent, all who have
-- been are woken at once, and those that do not ask within 0.19 s are passed over.
CREATE OR REPLACE FUNCTION distributed_lock.admit_1(lock_name text, asker text, durably text)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    first distributed_lock.waiting;
    behind distributed_lock.waiting;
    passed bigint := 0;
    listens bigint;
    fits boolean;
    t timestamptz;
    lease bigint;
    setting text;
    messages text[] := '{}';
BEGIN
    FOR entered IN 1..100 LOOP
        LOOP
            SELECT * INTO first FROM distributed_lock.waiting w
                WHERE w.name = lock_name AND w.place > passed ORDER BY w.place LIMIT 1;
            IF NOT FOUND THEN
                RETURN messages;
            END IF;
            EXIT WHEN first.token = asker;
            -- A process has this lock as long as it listens; its connections share it. Without the lock it is passed over, and
            -- keeps its place for a moment, since its connection may have to be replaced. The lock is given up at once, or
            -- other requests would take this one for the process.
            listens := hashtextextended('distributed_lock listens ' || first.channel, 0);
            IF (CASE WHEN pg_try_advisory_lock(listens) THEN pg_advisory_unlock(listens) END) THEN
                first.alive_until := least(first.alive_until, first.asked_at + interval '3 s');
                UPDATE distributed_lock.waiting w SET alive_until = first.alive_until
                    WHERE w.name = lock_name AND w.place = first.place;
            ELSE
                EXIT WHEN first.alive_until >= clock_timestamp();
            END IF;
            IF first.alive_until < clock_timestamp() THEN
                DELETE FROM distributed_lock.waiting w WHERE w.name = lock_name AND w.place = first.place;
            END IF;
            passed := first.place;
        END LOOP;
        fits := distributed_lock.has_room_1(lock_name, first.max_holders);
        t := clock_timestamp();
        IF entered = 1 AND first.token <> asker AND first.asked_at < t - interval '1.5 s' THEN
            SELECT * INTO behind FROM distributed_lock.waiting w WHERE w.name = lock_name AND w.token = asker;
            IF fits OR distributed_lock.has_room_1(lock_name, coalesce(behind.max_holders, 0)) THEN
                WITH woken AS (
                    UPDATE distributed_lock.waiting w SET alive_until = t + interval '190 ms'
                        WHERE w.name = lock_name AND w.place IN (
                            SELECT x.place FROM distributed_lock.waiting x
                                WHERE x.name = lock_name AND x.asked_at < t - interval '1.5 s'
                                    AND x.alive_until > t + interval '190 ms'
                                    AND (behind.place IS NULL OR x.place < behind.place)
                                ORDER BY x.place LIMIT 100)
                        RETURNING w.channel, w.token
                ) SELECT messages || coalesce(array_agg(format('%s free %s', channel, token)), '{}') INTO messages
                    FROM woken WHERE channel IS NOT NULL;
                RETURN messages;
            END IF;
        END IF;
        IF NOT fits THEN
            RETURN messages;
        END IF;
        DELETE FROM distributed_lock.waiting w WHERE w.name = lock_name AND w.place = first.place;
        lease := CASE WHEN first.token = asker THEN first.ttl ELSE least(first.ttl, 2000000) END;
        INSERT INTO distributed_lock.held VALUES (lock_name, first.token, first.max_holders,
            distributed_lock.number_1(), t + lease * interval '1 microsecond')
            ON CONFLICT (name, token) DO NOTHING;
        setting := set_config('synchronous_commit', durably, true);
        IF first.token IS DISTINCT FROM asker AND first.channel IS NOT NULL THEN
            messages := messages || format('%s grant %s %s %s %s', first.channel, first.token,
                distributed_lock.micros_1(t), lease, lock_name);
        END IF;
    END LOOP;
    RETURN messages;
END $$;
