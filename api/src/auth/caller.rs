//! The caller of a request: a key in force, found by the hash of its `Authorization: Bearer`.
//!
//! 401 tells nobody whether a key is unknown, expired or revoked; 403 means that the key is good and lacks a scope.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use penstock_protocol::TenantNo;

use super::{KeyHash, KeyId, KeyRing, Scope, Scopes};
use crate::app::App;
use crate::error::Problem;

/// Whose request this is. Handlers take it as an argument; only a key in force makes one.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Tenant of the key.
    pub tenant: TenantNo,
    /// Its name.
    pub tenant_name: Arc<str>,
    /// What the tenant was given in its row; `None` = the setting of the queue.
    pub allowance: Allowance,
    /// Number of the key.
    pub key: KeyId,
    /// What the key may do.
    pub scopes: Scopes,
}

/// A tenant's own bounds at the door. Its share of the slots is the queue's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Most tasks waiting.
    pub depth_max: Option<u32>,
    /// Most tasks that have not ended.
    pub live_max: Option<u32>,
    /// Most tasks of one of its users that have not ended.
    pub user_live_max: Option<u32>,
}

impl Caller {
    /// The caller that the headers name. Errors: 401; 503 before the first snapshot.
    pub fn authenticate(keys: &KeyRing, headers: &HeaderMap) -> Result<Self, Problem> {
        let hash = bearer(headers).and_then(KeyHash::of).ok_or_else(Problem::unauthenticated)?;
        if !keys.is_loaded() {
            return Err(Problem::unavailable("keys are not loaded yet"));
        }
        keys.find(hash).ok_or_else(Problem::unauthenticated)
    }

    /// Errors: 403 when the key lacks `scope`.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.has(scope) { Ok(()) } else { Err(Problem::missing_scope(scope.as_str())) }
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        Self::authenticate(&app.keys, &parts.headers)
    }
}

/// The token of `Authorization: Bearer <token>`; the scheme in any case, as HTTP has it.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
