-- Lets what follows write, behind a lock. ? the next sequence.
SET @semel.own = ?
