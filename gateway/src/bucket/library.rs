//! The scripts as one Redis Functions library, named by a hash of its content: parsed once, kept by FLUSHALL, and two
//! versions of Penstock run side by side on one Redis.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

const PARTS: [&str; 4] = [
    include_str!("../../lua/prelude.lua"),
    include_str!("../../lua/take.lua"),
    include_str!("../../lua/settle.lua"),
    include_str!("../../lua/probe.lua"),
];

/// The library of this version.
pub(crate) static LIBRARY: LazyLock<Library> = LazyLock::new(Library::new);

#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) source: String,
    pub(crate) take: String,
    pub(crate) settle: String,
    pub(crate) probe: String,
}

impl Library {
    fn new() -> Self {
        let source = PARTS.concat();
        let hash: String = Sha256::digest(source.as_bytes())[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let source = format!("#!lua name=penstock_bucket_{hash}\n{}", source.replace("@HASH@", &hash));
        let function = |verb: &str| format!("{verb}_{hash}");
        Self { source, take: function("take"), settle: function("settle"), probe: function("probe") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_states_its_contract() {
        for (name, source) in ["take", "settle", "probe"].iter().zip(&PARTS[1..]) {
            for word in [&format!("-- {name}: ")[..], "-- KEYS", "-- ARGV", "-- Returns"] {
                assert!(source.contains(word), "{name} lacks `{word}`");
            }
        }
        assert!(!LIBRARY.source.contains("@HASH@"));
    }
}
