-- A UUIDv7: 48 bits of milliseconds, the rest by chance. A user variable, so that the writer knows it as well.
SET @semel.chance = SHA1(CONCAT(UUID(), ' ', RAND()));
SET @semel.id = COALESCE(?, UNHEX(CONCAT(
    LPAD(HEX(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000), 12, '0'),
    '7', LEFT(@semel.chance, 3), SUBSTR('89AB', 1 + ASCII(SUBSTR(@semel.chance, 4, 1)) MOD 4, 1),
    SUBSTR(@semel.chance, 5, 15))))
