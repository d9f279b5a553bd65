//! The one place that builds HTTP clients.
//!
//! HTTP/1.1 only: there, dropping a response closes its connection, and that is how a vendor learns that nobody listens
//! any more. No redirects (they would carry the key elsewhere), no retries below the gateway's own, no proxy from the
//! environment.

use std::sync::Once;
use std::time::Duration;

/// An idle connection is closed after this; most load balancers close theirs at 60 s, and the first to close avoids a race.
const IDLE_CONNECTION: Duration = Duration::from_secs(50);

/// Installs the TLS provider of the process (ring), once. Also called by the gateway itself.
pub fn install_tls_provider() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // An error means that another part of the process was first.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}

/// A client whose connections open within `connect` and of which `idle_connections_max` a host are kept.
///
/// Without `has_tls` the system's roots are not read: they cost memory, and a small container may have none.
///
/// # Errors
/// When the system's TLS roots cannot be read.
pub(crate) fn http_client(
    connect: Duration,
    idle_connections_max: usize,
    has_tls: bool,
) -> Result<reqwest::Client, reqwest::Error> {
    install_tls_provider();
    let builder = reqwest::Client::builder();
    let builder = if has_tls { builder } else { builder.tls_certs_only([]) };
    builder
        .connect_timeout(connect)
        .pool_max_idle_per_host(idle_connections_max)
        .pool_idle_timeout(IDLE_CONNECTION)
        .tcp_nodelay(true)
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .user_agent(concat!("penstock/", env!("CARGO_PKG_VERSION")))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_be_built_with_and_without_tls() {
        for has_tls in [true, false] {
            http_client(Duration::from_secs(1), 1, has_tls).unwrap();
        }
    }
}
