-- Ends the way from format 1 to format 2.
UPDATE semel_meta SET number = 2 WHERE name = 'format' AND number = 1
