//! Why settings were refused. Every message names the key's path and, where it helps, where the value came from.

use std::path::PathBuf;

/// A refusal at start.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The settings file cannot be read.
    #[error("settings file {path}: {cause}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// The settings file is not TOML.
    #[error("settings file {path}: {cause}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line and column.
        #[source]
        cause: Box<toml::de::Error>,
    },
    /// A key is unknown or has the wrong type.
    #[error("{path} (from {origin}): {message}")]
    Key {
        /// Dotted path of the key.
        path: String,
        /// Where it came from.
        origin: String,
        /// What is wrong.
        message: String,
    },
    /// Values are out of range or contradict each other; every finding is listed.
    #[error("{}", .findings.join("\n"))]
    Contradiction {
        /// One line each, opening with the key's path.
        findings: Vec<String>,
    },
}
