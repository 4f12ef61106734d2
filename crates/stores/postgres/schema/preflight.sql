-- Settings that a promise rests on.
SELECT current_setting('fsync'),
       current_setting('full_page_writes'),
       current_setting('synchronous_commit'),
       current_setting('synchronous_standby_names'),
       pg_is_in_recovery(),
       current_setting('transaction_read_only'),
       (SELECT relpersistence FROM pg_class WHERE oid = to_regclass('semel.records')),
       current_setting('server_version_num')::integer,
       current_setting('server_encoding'),
       (SELECT relpersistence FROM pg_class WHERE oid = to_regclass('semel.producer_batches'))
