//! The laws of every source and of every sink.

use crate::cluster::Topic;

semel_conformance::source_laws!(Topic);
semel_conformance::sink_laws!(Topic);
