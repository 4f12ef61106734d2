-- From format 1 to format 2: what the members of a request were. No row is written anew. Making the column commits.
ALTER TABLE semel_records ADD COLUMN members VARBINARY(255)
