-- The oldest inputs. ?1 producer, ?2 stream, ?3 how many are kept.
DELETE FROM semel_producer_inputs WHERE place IN (
    SELECT place FROM semel_producer_inputs WHERE producer = ?1 AND stream = ?2 ORDER BY place DESC LIMIT -1 OFFSET ?3)
