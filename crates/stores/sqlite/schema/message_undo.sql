ROLLBACK TO semel_message
