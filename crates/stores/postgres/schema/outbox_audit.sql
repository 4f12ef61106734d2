-- Whether the store in a schema of this database has an audit trail that the user may write. $1 schema.
SELECT EXISTS (
    SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = $1::text AND relname = 'audit'
      AND has_schema_privilege(pg_namespace.oid, 'USAGE') AND has_table_privilege(pg_class.oid, 'INSERT')
)
