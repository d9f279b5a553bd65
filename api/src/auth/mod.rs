//! Who calls: API keys, their scopes, and the snapshot of tenants and keys that every request is judged by.
//!
//! No SQL in the request path: a process polls one number and loads the tables again when it changed.

mod caller;
mod key;
mod refresh;
mod ring;
mod scope;

pub use caller::{Allowance, Caller, WebhookDefault, bearer};
pub use key::{KeyHash, SecretKey};
pub use ring::{KeyId, KeyRing};
pub use scope::{Scope, Scopes, UnknownScope};
