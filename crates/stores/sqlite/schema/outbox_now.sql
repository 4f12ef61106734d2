-- The clock of the outbox, which its processes share: they are on one machine.
SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
