-- Gives a message its place, with the rights of whoever makes this, so that a writer needs INSERT and nothing else.
-- The row of the order key stays locked to the end of the transaction: places of a key rise in the order of commits.
-- They go by the time where that is later, so that a quiet key is not before a backlog for ever. A message without an
-- order key locks nothing. Where it is left out, the id is a UUIDv7: 48 bits of milliseconds, the rest by chance.
CREATE TRIGGER semel_outbox_place BEFORE INSERT ON semel_outbox FOR EACH ROW
BEGIN
    DECLARE micros BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    DECLARE chance CHAR(40) CHARACTER SET ascii DEFAULT SHA1(CONCAT(UUID(), ' ', RAND()));
    DECLARE hash INT UNSIGNED;
    IF NEW.id IS NULL OR NEW.id = X'00000000000000000000000000000000' THEN
        SET NEW.id = UNHEX(CONCAT(LPAD(HEX(micros DIV 1000), 12, '0'), '7', LEFT(chance, 3),
            SUBSTR('89AB', 1 + ASCII(SUBSTR(chance, 4, 1)) MOD 4, 1), SUBSTR(chance, 5, 15)));
    END IF;
    IF NEW.order_key IS NULL THEN
        SET hash = CRC32(NEW.id);
        SET NEW.place = micros, NEW.order_hash = NULL;
    ELSE
        SET hash = CRC32(CONCAT(NEW.stream, ' ', NEW.order_key));
        UPDATE semel_outbox_places SET place = GREATEST(place + 1, micros) WHERE slot = hash & 1023;
        SET NEW.place = (SELECT place FROM semel_outbox_places WHERE slot = hash & 1023), NEW.order_hash = hash;
    END IF;
    SET NEW.part = (hash >> 10) & 31, NEW.bytes = LENGTH(NEW.payload), NEW.attempts = 0,
        NEW.created_at = IF(NEW.created_at > 0, NEW.created_at, micros DIV 1000);
END
