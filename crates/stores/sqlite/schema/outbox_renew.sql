-- Renews what a process still holds. ?1 stream, ?2 process, ?3 now, ?4 until.
UPDATE semel_outbox_leases SET until = ?4 WHERE stream = ?1 AND holder = ?2 AND until > ?3
RETURNING part, token
