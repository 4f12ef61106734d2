-- Whether there is an audit trail beside the outbox, as far as the user sees it.
SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'semel_audit'
