SELECT obj_description(schema, 'pg_namespace') AS comment,
    EXISTS (SELECT FROM pg_class WHERE relnamespace = schema) AS is_used
FROM (SELECT to_regnamespace($1)::oid AS schema) s
