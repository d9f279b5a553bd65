//! What following the settings file counts.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counters of one process's settings. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SettingsMetrics {
    reloads: Family<ReloadLabels, Counter>,
    /// 1 while the file as it stands is refused.
    pub(crate) is_refused: Gauge,
    /// Cold keys that the file wants otherwise than they are.
    pub(crate) restart_needed: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    outcome: Reload,
}

/// What became of a file that was read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Reload {
    Applied,
    Unchanged,
    Refused,
}

impl SettingsMetrics {
    /// Registers everything.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("settings_reloads", "Settings files read again, by their outcome", self.reloads.clone());
        registry.register("settings_refused", "1 = the settings file as it is is refused", self.is_refused.clone());
        registry.register(
            "settings_restart_needed_keys",
            "Settings that the file changed and that need a restart",
            self.restart_needed.clone(),
        );
    }

    pub(crate) fn count(&self, outcome: Reload) {
        self.reloads.get_or_create(&ReloadLabels { outcome }).inc();
    }
}
