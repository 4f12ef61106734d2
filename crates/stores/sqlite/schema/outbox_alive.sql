-- Renews the presence of a process that is still there. ?1 stream, ?2 process, ?3 now, ?4 until.
UPDATE semel_outbox_processes SET until = ?4 WHERE stream = ?1 AND process = ?2 AND until > ?3
