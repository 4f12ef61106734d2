-- What every connection is told first: nothing of what follows is left to the server's own defaults. A process that stands
-- still in a transaction must not keep others waiting: MariaDB ends it; MySQL has no such limit but `wait_timeout`.
SET SESSION /*!80000 information_schema_stats_expiry = 0, */ sql_mode = 'STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1, completion_type = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615, innodb_lock_wait_timeout = ?/*M!100300 , idle_transaction_timeout = ? */;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET NAMES utf8mb4
