//! The source and the sink over a real RabbitMQ: the laws, and the failures of this broker.
//!
//! `SEMEL_TEST_AMQP_URL` names the server of all tests (`cargo xtask services up rabbitmq`). Tests that kill
//! one, or want it short-tempered, share a server of their own.

mod backlog;
mod crash;
mod cut;
mod inspection;
mod lab;
mod laws;
mod login;
mod message;
mod publish;
mod redelivery;
mod server;
mod tls;
