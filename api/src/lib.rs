//! The front door of Penstock: says yes or no in milliseconds, stores what it accepted, and shows clients each step.
//!
//! A request walks down one file after another: `task::request` (what was asked), `auth` (who asks), `task::admission`
//! (may it wait), `task::acceptance` (the row in MySQL), `task::submission` (the order of it all). `error` alone knows
//! HTTP statuses.

pub mod app;
pub mod auth;
pub mod cli;
mod dead;
pub mod error;
pub mod events;
mod health;
mod layers;
pub mod metrics;
pub mod openapi;
mod page;
mod pause;
mod queue_state;
mod router;
pub mod schedule;
pub mod server;
pub mod start;
pub mod task;
mod tending;
pub mod webhook;

pub use router::router;
