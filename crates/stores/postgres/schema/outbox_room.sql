-- Whether there is an outbox, and whether the user may make one. $1 is the lock of whoever makes it.
SELECT pg_advisory_xact_lock(hashtextextended('semel outbox ' || $1::text, 0)) IS NULL,
       to_regclass('semel_outbox_format') IS NOT NULL,
       coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
