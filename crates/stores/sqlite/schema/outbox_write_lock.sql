-- Changes nothing, but makes a deferred transaction the one that writes before it has read.
UPDATE semel_outbox_format SET format = format
