//! Where calls can go: chains of hops, built from the settings.

mod chain;
mod inspection;
mod need;
mod routes;
mod table;

pub(crate) use chain::Chain;
pub(crate) use need::Need;
pub(crate) use routes::Routes;
pub(crate) use table::Facts;
