-- A page of the producers, by name, each with its streams. ?1 behind; ?2 beginning of the names, ?3 behind the last of
-- them; ?4 most; ?5 the prefix. Whatever has a space behind the prefix is of neither journal.
SELECT p.producer, p.id, p.epoch, p.frozen, s.stream, s.target, s.next, s.confirmed, s.released
FROM (
    SELECT producer, id, epoch, frozen FROM semel_producers AS listed
    WHERE producer > ?1 AND producer >= ?2 AND producer < ?3
      AND instr(substr(producer, length(?5) + 1), ' ') = 0
      AND EXISTS (SELECT 1 FROM semel_producer_streams AS own WHERE own.producer = listed.producer)
    ORDER BY producer LIMIT ?4
) AS p JOIN semel_producer_streams s ON s.producer = p.producer
ORDER BY p.producer, s.stream
