-- Changes nothing, but makes a deferred transaction the one that writes before it has read.
UPDATE semel_meta SET value = value WHERE name = 'token'
