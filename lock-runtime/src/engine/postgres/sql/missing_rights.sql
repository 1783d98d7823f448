-- $2: those that operators need, instead of those that locks need.
WITH objects AS (
    SELECT c.oid, c.relkind, c.relname FROM pg_class c
        WHERE c.relnamespace = to_regnamespace($1)::oid
            AND c.relname IN ('held', 'waiting', 'fence', 'taken', 'process')
), needed(what, has, by_operators) AS (
    SELECT 'USAGE ON SCHEMA ' || $1, has_schema_privilege(to_regnamespace($1)::oid, 'USAGE'), false
    UNION ALL SELECT p || ' ON TABLE ' || $1 || '.' || o.relname, has_table_privilege(o.oid, p),
            o.relname = 'process' OR o.relname = 'taken' AND p <> 'SELECT'
        FROM objects o, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p WHERE o.relkind = 'r'
    UNION ALL SELECT p || ' ON SEQUENCE ' || $1 || '.' || o.relname, has_sequence_privilege(o.oid, p), false
        FROM objects o, unnest(ARRAY['SELECT', 'UPDATE']) p WHERE o.relkind = 'S'
    UNION ALL SELECT 'EXECUTE ON FUNCTION ' || f.oid::regproc::text, has_function_privilege(f.oid, 'EXECUTE'),
            f.proname IN ('report_1', 'take_1', 'process_of_1', 'made_at_1')
        FROM pg_proc f WHERE f.pronamespace = to_regnamespace($1)::oid
) SELECT string_agg(what, ', ') FROM needed WHERE NOT has AND by_operators = $2
