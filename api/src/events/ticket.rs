//! `POST /api/ticket`: a key, turned into something that a page may put where it cannot put a header.
//!
//! Redeemed once, on any replica, within `events.ticket_ms`. Redis holds its hash only. It never is part of a URL, so
//! no log shows it.

use axum::Json;
use axum::extract::State;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{Caller, KeyId, Scope, Scopes};
use crate::error::{Problem, ProblemBody};

/// Bytes of a ticket before it is written in base64url.
const RANDOM_BYTES: usize = 32;
const LENGTH: usize = 43;

/// A new ticket.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TicketAnswer {
    /// Offer it as subprotocol `penstock.ticket.<ticket>` beside `penstock.agui.v1`.
    ticket: String,
    /// It works once, within this time.
    expires_in_ms: u64,
}

/// Get a ticket for a browser's socket.
#[utoipa::path(
    post,
    path = "/api/ticket",
    tag = "events",
    security(("key" = ["read"])),
    responses(
        (status = 200, description = "Works once", body = TicketAnswer),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn make_ticket(State(app): State<App>, caller: Caller) -> Result<Json<TicketAnswer>, Problem> {
    caller.require(Scope::Read)?;
    let mut random = [0_u8; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(|_| Problem::internal())?;
    let (ticket, keep) = (URL_SAFE_NO_PAD.encode(random), app.settings.now().events.ticket);
    let bound = format!("{} {}", caller.key.0, caller.scopes);
    app.queue.put_ticket(&name(&ticket), &bound, keep).await.map_err(silent)?;
    let expires_in_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
    Ok(Json(TicketAnswer { ticket, expires_in_ms }))
}

/// The caller who got the ticket, with the scopes that the key had then and still has. The ticket is gone afterwards.
pub(super) async fn redeem(app: &App, ticket: &str) -> Result<Caller, Problem> {
    if ticket.len() != LENGTH {
        return Err(Problem::unauthenticated());
    }
    let bound = app.queue.take_ticket(&name(ticket)).await.map_err(silent)?.ok_or_else(Problem::unauthenticated)?;
    let (key, scopes) = bound.split_once(' ').unwrap_or_default();
    let key = KeyId(key.parse().map_err(|_| Problem::unauthenticated())?);
    let mut caller = app.keys.caller_of(key).ok_or_else(Problem::unauthenticated)?;
    let then = Scopes::from_stored(scopes);
    caller.scopes = [Scope::Submit, Scope::Read, Scope::Chat, Scope::Admin]
        .into_iter()
        .filter(|scope| then.has(*scope) && caller.scopes.has(*scope))
        .collect();
    Ok(caller)
}

fn name(ticket: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(ticket.as_bytes()))
}

fn silent(error: penstock_queue::QueueError) -> Problem {
    tracing::debug!(%error, "a ticket could not be kept or taken");
    Problem::unavailable("the queue does not answer")
}
