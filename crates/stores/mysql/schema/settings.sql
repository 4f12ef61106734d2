-- What durability and safety hang on. One server knows settings that another does not.
SHOW VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'innodb_flush_method',
'innodb_doublewrite', 'log_bin', 'sync_binlog', 'binlog_format', 'read_only', 'super_read_only',
'wsrep_on', 'max_allowed_packet', 'innodb_read_only', 'innodb_force_recovery')
