//! What a key may do.

use std::fmt;
use std::str::FromStr;

/// One permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Submit and cancel tasks.
    Submit,
    /// Read tasks, events and the queue.
    Read,
    /// Call models through the chat door.
    Chat,
    /// Operate: tenants, keys, policy.
    Admin,
}

/// A set of permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

/// A name that is no scope.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no scope; there are submit, read, chat and admin")]
pub struct UnknownScope(String);

impl Scope {
    const ALL: [Self; 4] = [Self::Submit, Self::Read, Self::Chat, Self::Admin];

    /// The name on the command line and in MySQL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Chat => "chat",
            Self::Admin => "admin",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Submit => 1,
            Self::Read => 2,
            Self::Chat => 4,
            Self::Admin => 8,
        }
    }
}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(name: &str) -> Result<Self, UnknownScope> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name).ok_or_else(|| UnknownScope(name.to_owned()))
    }
}

impl Scopes {
    /// Whether `scope` is among them.
    #[must_use]
    pub fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Reads the stored list; names written by a newer version grant nothing here.
    #[must_use]
    pub fn from_stored(names: &str) -> Self {
        names.split(',').filter_map(|name| name.parse().ok()).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<T: IntoIterator<Item = Scope>>(scopes: T) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Scope::ALL.into_iter().filter(|scope| self.has(*scope)).map(Scope::as_str).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_survive_their_stored_form() {
        let scopes: Scopes = [Scope::Read, Scope::Admin].into_iter().collect();
        assert_eq!(Scopes::from_stored(&scopes.to_string()), scopes);
        assert!(!scopes.has(Scope::Submit));
        assert_eq!(Scopes::from_stored("from-the-future"), Scopes::default());
    }
}
