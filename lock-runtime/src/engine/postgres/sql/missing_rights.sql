WITH objects AS (
    SELECT c.oid, c.relkind, c.relname FROM pg_class c
        WHERE c.relnamespace = to_regnamespace($1)::oid AND c.relname IN ('held', 'waiting', 'fence')
), needed(what, has) AS (
    SELECT 'USAGE ON SCHEMA ' || $1, has_schema_privilege(to_regnamespace($1)::oid, 'USAGE')
    UNION ALL SELECT p || ' ON TABLE ' || $1 || '.' || o.relname, has_table_privilege(o.oid, p)
        FROM objects o, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p WHERE o.relkind = 'r'
    UNION ALL SELECT p || ' ON SEQUENCE ' || $1 || '.' || o.relname, has_sequence_privilege(o.oid, p)
        FROM objects o, unnest(ARRAY['SELECT', 'UPDATE']) p WHERE o.relkind = 'S'
    UNION ALL SELECT 'EXECUTE ON FUNCTION ' || f.oid::regproc::text, has_function_privilege(f.oid, 'EXECUTE')
        FROM pg_proc f WHERE f.pronamespace = to_regnamespace($1)::oid
) SELECT string_agg(what, ', ') FROM needed WHERE NOT has
