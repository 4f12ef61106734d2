-- Before a record is removed: no claim may get a token below its own. ? token.
UPDATE semel_meta SET number = ? WHERE name = 'floor' AND number < ?
