//! Who wants to read: a key in the `Authorization` header, or a browser's ticket among the WebSocket subprotocols; and
//! from which page.

use axum::http::{HeaderMap, header};

use super::ticket;
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::Problem;

/// The subprotocol that Penstock speaks: like none, with `: ping` text frames for pages, which cannot see pings.
pub(super) const SUBPROTOCOL: &str = "penstock.agui.v1";
/// A subprotocol that begins like this carries a ticket.
const TICKET_PREFIX: &str = "penstock.ticket.";

/// The caller, who may read. Errors: 403 for a foreign page, 401, 403 without the scope, 503.
pub(super) async fn reader(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    check_origin(headers, &app.settings.now().api.allowed_origins)?;
    let caller = if headers.contains_key(header::AUTHORIZATION) {
        Caller::authenticate(&app.keys, headers)?
    } else {
        let ticket = subprotocols(headers).find_map(|name| name.strip_prefix(TICKET_PREFIX));
        ticket::redeem(app, ticket.ok_or_else(Problem::unauthenticated)?).await?
    };
    caller.require(Scope::Read)?;
    Ok(caller)
}

/// Whether the client speaks [`SUBPROTOCOL`].
pub(super) fn speaks_subprotocol(headers: &HeaderMap) -> bool {
    subprotocols(headers).any(|name| name == SUBPROTOCOL)
}

/// Errors: 403 for a page of an origin that is not allowed. A request without Origin comes from no page.
pub(super) fn check_origin(headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let is_allowed = origins.all(|origin| {
        let is = |allowed: &String| allowed == "*" || origin.as_bytes().eq_ignore_ascii_case(allowed.as_bytes());
        allowed.iter().any(is)
    });
    if is_allowed { Ok(()) } else { Err(Problem::forbidden_origin()) }
}

fn subprotocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_allowed_origins_come_in() {
        let allowed = ["https://app.example".to_owned()];
        let from = |origin: &str| HeaderMap::from_iter([(header::ORIGIN, origin.parse().unwrap())]);
        assert!(check_origin(&HeaderMap::new(), &allowed).is_ok());
        assert!(check_origin(&from("https://APP.example"), &allowed).is_ok());
        for foreign in ["https://app.example.evil", "http://app.example", "null", "https://app.example:444"] {
            assert!(check_origin(&from(foreign), &allowed).is_err(), "{foreign}");
        }
        assert!(check_origin(&from("null"), &["*".to_owned()]).is_ok());
        assert!(check_origin(&from("https://app.example"), &[]).is_err());
    }
}
