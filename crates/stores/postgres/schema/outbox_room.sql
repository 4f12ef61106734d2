-- Whether there is an outbox, and whether the user may make one; asked under the lock, in a statement of its own that
-- sees what others made before.
SELECT to_regclass('semel_outbox_format') IS NOT NULL,
       coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
