-- A page of the names behind one. ?1 name, ?2 beginning of the names, ?3 behind the last of them, ?4 most.
SELECT producer FROM semel_producers WHERE producer > ?1 AND producer >= ?2 AND producer < ?3 ORDER BY producer LIMIT ?4
