-- Says that a process is there. ?1 stream, ?2 process, ?3 until.
INSERT INTO semel_outbox_processes (stream, process, until) VALUES (?1, ?2, ?3)
ON CONFLICT (stream, process) DO UPDATE SET until = excluded.until
