//! Where calls can go: chains of hops, built from the settings.

mod chain;
mod routes;

pub(crate) use chain::Chain;
pub(crate) use routes::Routes;
