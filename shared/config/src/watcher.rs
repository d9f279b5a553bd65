//! Follows the settings file: looked at twice a second, and at once on SIGHUP.
//!
//! A changed file is judged whole, as at a start. A bad one is refused and the settings in force stay; of a good one the
//! hot keys take effect and the cold ones wait for a restart. Either is said in one line and counted. A file is only
//! taken once two looks found the same, so that nothing half-written comes into force.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::metrics::{Reload, SettingsMetrics};
use crate::{ConfigError, LiveSettings, Loaded, Settings, hot, layers};

/// Two looks and their work fit into the 2 s in which a change takes effect.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A larger file is none of ours.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Names of keys in one log line.
const KEYS_SAID_MAX: usize = 32;

/// What a look at the file found. The reason is kept as text: it is only said and compared.
type Found = Result<Vec<u8>, String>;

/// Follows the settings file of a process.
#[derive(Debug)]
pub struct Watcher {
    running: Loaded,
    sender: watch::Sender<Arc<Settings>>,
    metrics: SettingsMetrics,
}

impl Watcher {
    /// Settings that follow their file once [`run`](Self::run) is polled.
    #[must_use]
    pub fn new(loaded: Loaded, metrics: SettingsMetrics) -> (LiveSettings, Self) {
        let (sender, live) = LiveSettings::new(loaded.settings.clone());
        (live, Self { running: loaded, sender, metrics })
    }

    /// Follows the file for as long as it is polled. Without a file it only heeds SIGHUP, which would end the process.
    pub async fn run(mut self) {
        let mut hang_up = signal(SignalKind::hangup()).ok();
        let Some(path) = self.running.file.clone() else {
            loop {
                heard(&mut hang_up).await;
                tracing::info!("SIGHUP: this process has no settings file to read again");
            }
        };
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut judged: Found = Ok(self.running.text.clone().into_bytes());
        let mut last = judged.clone();
        loop {
            let is_told = tokio::select! {
                _ = looks.tick() => false,
                () = heard(&mut hang_up) => true,
            };
            let found = look(path.clone()).await;
            let is_settled = is_told || found == last;
            if is_settled && (is_told || found != judged) {
                self.judge(&path, &found);
                judged = found.clone();
            }
            last = found;
        }
    }

    fn judge(&mut self, path: &Path, found: &Found) {
        match found.as_ref().map_err(Clone::clone).and_then(|text| self.take(path, text).map_err(|e| e.to_string())) {
            Ok(()) => {
                self.metrics.is_refused.set(0);
            }
            Err(reason) => {
                self.metrics.count(Reload::Refused);
                self.metrics.is_refused.set(1);
                tracing::error!(path = %path.display(), reason, "the changed settings are refused; those before stay in force");
            }
        }
    }

    /// Puts the hot values of a file in force.
    fn take(&mut self, path: &Path, text: &[u8]) -> Result<(), ConfigError> {
        let read = layers::layered(Some((path, &String::from_utf8_lossy(text))), layers::variables())?;
        let merged = hot::merge(&self.running.table, &read.table);
        // Hot values beside cold ones that did not follow: they have to fit together too.
        let settings = layers::checked(&merged.table, &read.origins)?;
        self.metrics.restart_needed.set(i64::try_from(merged.cold.len()).unwrap_or(i64::MAX));
        if !merged.cold.is_empty() {
            let keys = names(&merged.cold);
            tracing::warn!(keys, "settings were changed that need a restart; until then the old values stay in force");
        }
        if merged.changed.is_empty() {
            self.metrics.count(Reload::Unchanged);
            tracing::info!("the settings file was read again: nothing that is in force changes");
            return Ok(());
        }
        self.running.table = merged.table;
        self.running.settings = settings.clone();
        self.sender.send_replace(Arc::new(settings));
        self.metrics.count(Reload::Applied);
        tracing::info!(keys = names(&merged.changed), "changed settings are in force");
        Ok(())
    }
}

async fn heard(hang_up: &mut Option<Signal>) {
    match hang_up {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

async fn look(path: PathBuf) -> Found {
    let reading = tokio::task::spawn_blocking(move || {
        let mut text = Vec::new();
        std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
        Ok::<_, std::io::Error>(text)
    });
    match reading.await {
        Ok(Ok(text)) if text.len() as u64 > FILE_BYTES_MAX => Err(format!("it has more than {FILE_BYTES_MAX} bytes")),
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn names(paths: &[String]) -> String {
    let mut said = paths.iter().take(KEYS_SAID_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    if paths.len() > KEYS_SAID_MAX {
        said.push_str(", …");
    }
    said
}

#[cfg(test)]
mod tests;
