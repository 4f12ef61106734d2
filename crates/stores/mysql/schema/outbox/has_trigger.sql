-- Whether the trigger is there, as far as whoever may make one sees it.
SELECT COUNT(*) FROM information_schema.triggers
WHERE trigger_schema = DATABASE() AND trigger_name = 'semel_outbox_place'
