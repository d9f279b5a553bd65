//! The Lua verbs as one Redis Functions library, named by a hash of its content.
//!
//! Functions survive FLUSHALL and are parsed once. The hash in the library's and the functions' names lets two versions
//! of Penstock run side by side on one Redis; what an old version leaves behind is removed once nobody claims it.

use sha2::{Digest, Sha256};

use crate::field::hex;
use crate::server::LIBRARIES;

/// Shared helpers, in the order in which they build on each other.
const PRELUDE: [&str; 6] = [
    include_str!("../lua/prelude/call.lua"),
    include_str!("../lua/prelude/task.lua"),
    include_str!("../lua/prelude/tenant.lua"),
    include_str!("../lua/prelude/home.lua"),
    include_str!("../lua/prelude/dispatch.lua"),
    include_str!("../lua/prelude/stream.lua"),
];

macro_rules! verbs {
    ($($name:literal),* $(,)?) => {
        /// Every verb and its source.
        #[doc(hidden)]
        pub const VERBS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../lua/", $name, ".lua")))),*];
    };
}

verbs!(
    "admit",
    "release",
    "enqueue",
    "dispatch",
    "start",
    "raise",
    "beat",
    "adopt",
    "finish",
    "retry",
    "pause",
    "cancel",
    "close",
    "lost",
    "reap",
    "tick",
    "census",
    "wipe",
    "open",
    "set_queue",
    "set_tenants",
    "park",
    "unpark",
    "confirm_terms",
    "gauges",
    "position",
    "standing",
    "audit",
    "emit",
    "mend_user",
);

const HASH: &str = "@HASH@";

/// A library as it is loaded.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Library {
    source: String,
    hash: String,
}

impl Library {
    /// Names `source` by its content.
    #[must_use]
    pub fn new(source: &str) -> Self {
        let hash = hex(&Sha256::digest(source.as_bytes())[..4]);
        Self { source: source.replace(HASH, &hash), hash }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Name of the library in Redis.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{LIBRARIES}{}", self.hash)
    }

    pub(crate) fn function(&self, verb: &str) -> String {
        format!("{verb}_{}", self.hash)
    }
}

/// The library's source, before it is named.
#[doc(hidden)]
#[must_use]
pub fn library_source() -> String {
    let mut source = format!("#!lua name=penstock_queue_{HASH}\n");
    for part in PRELUDE {
        source.push_str(part);
    }
    for (_, verb) in VERBS {
        source.push_str(verb);
    }
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_source_has_another_name() {
        let (first, second) = (Library::new(&library_source()), Library::new(&format!("{}-- x", library_source())));
        assert_ne!(first.name(), second.name());
        assert!(!first.source().contains(HASH));
    }

    #[test]
    fn every_verb_states_its_contract() {
        for (name, source) in VERBS {
            for word in [&format!("-- {name}: ")[..], "-- KEYS", "-- ARGV", "-- Returns"] {
                assert!(source.contains(word), "{name} lacks `{word}`");
            }
        }
    }
}
