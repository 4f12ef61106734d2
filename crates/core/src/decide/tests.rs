//! The guard table, row by row.
