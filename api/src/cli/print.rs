//! The one place that writes to standard output and error.

use std::io::{ErrorKind, Write};

/// Prints a result. A reader that went away (`| head`) is no failure.
pub(super) fn line(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// Says why a command failed, with its causes.
pub(super) fn failure(error: &anyhow::Error) {
    // With standard error gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "penstock-api: {error:#}");
}
