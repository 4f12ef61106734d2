-- The partitions that a process holds. ?1 stream, ?2 process, ?3 now.
SELECT part, token FROM semel_outbox_leases WHERE stream = ?1 AND holder = ?2 AND until > ?3
