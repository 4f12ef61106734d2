-- One process makes the tables. ? prefix, ? seconds.
SELECT GET_LOCK(CONCAT('semel ', SHA1(CONCAT(DATABASE(), ' ', ?))), ?)
