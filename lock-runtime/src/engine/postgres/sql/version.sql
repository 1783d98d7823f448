SELECT obj_description(schema, 'pg_namespace'),
    (SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE relnamespace = schema AND relname = 'waiting'),
    EXISTS (SELECT FROM pg_class WHERE relnamespace = schema)
FROM (SELECT to_regnamespace($1)::oid AS schema) s
