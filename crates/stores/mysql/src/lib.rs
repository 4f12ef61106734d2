//! Semel's store in MySQL and MariaDB: the fleet's memory, and effects in its own transactions.
