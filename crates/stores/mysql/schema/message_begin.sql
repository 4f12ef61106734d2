SAVEPOINT semel$message
