-- ? number of the statement, ? its text.
SET @semel.text = ?;
PREPARE semel$? FROM @semel.text
