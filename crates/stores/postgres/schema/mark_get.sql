-- Waits for whoever is about to set it: a commit of a worker that is gone may still be under way, and its batch has lines
-- that whoever goes on behind an older mark would cut off.
SELECT value FROM semel.marks WHERE name = $1::text FOR UPDATE
