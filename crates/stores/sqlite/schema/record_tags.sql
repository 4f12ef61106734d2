-- Which of many tags (?1, a JSON array in their order) are stored: one walk of the index.
SELECT tag FROM json_each(?1) CROSS JOIN semel_records WHERE tag = value
