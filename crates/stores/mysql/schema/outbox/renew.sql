-- Renews what a process still holds, and says that it is there: other processes count it as long as it publishes.
-- ? milliseconds, ? stream, ? process, and the same again.
UPDATE semel_outbox_processes SET until = @semel.now + ? WHERE stream = ? AND process = ? AND until > @semel.now;
UPDATE semel_outbox_leases SET until = @semel.now + ? WHERE stream = ? AND holder = ? AND until > @semel.now
