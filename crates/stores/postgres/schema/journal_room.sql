-- Whether there are the schema and a journal in it, and whether the user may make what is missing; asked under the lock,
-- in a statement of its own that sees what others made before. $1 schema, $2 the table with the format of the journal.
SELECT to_regnamespace(quote_ident($1::text)) IS NOT NULL,
       to_regclass(quote_ident($1) || '.' || quote_ident($2::text)) IS NOT NULL,
       CASE WHEN to_regnamespace(quote_ident($1)) IS NULL
            THEN has_database_privilege(current_database(), 'CREATE')
            ELSE has_schema_privilege($1, 'CREATE') END
