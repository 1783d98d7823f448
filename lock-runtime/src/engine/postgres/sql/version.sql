SELECT obj_description(schema, 'pg_namespace') AS of_schema,
    (SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE relnamespace = schema AND relname = 'waiting') AS of_table,
    EXISTS (SELECT FROM pg_class WHERE relnamespace = schema) AS is_used,
    coalesce(has_schema_privilege(schema, 'CREATE'), true) AS may_create
FROM (SELECT to_regnamespace($1)::oid AS schema) s
