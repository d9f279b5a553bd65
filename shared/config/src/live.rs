//! The settings in force, which may change while the process runs.
//!
//! Whoever needs a setting asks for it when it is needed and keeps none: [`LiveSettings::now`]. What was built from
//! settings and must be rebuilt waits for [`LiveSettings::changed`].

use std::sync::Arc;

use tokio::sync::watch;

use crate::Settings;

/// The settings of a process. Cheap to clone; all clones see a change at once.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    now: watch::Receiver<Arc<Settings>>,
}

impl LiveSettings {
    /// Settings that the returned sender may change.
    pub(crate) fn new(settings: Settings) -> (watch::Sender<Arc<Settings>>, Self) {
        let (sender, now) = watch::channel(Arc::new(settings));
        (sender, Self { now })
    }

    /// The settings in force. All values of one answer fit together; a later one may differ in its hot keys.
    #[must_use]
    pub fn now(&self) -> Arc<Settings> {
        Arc::clone(&self.now.borrow())
    }

    /// Waits until other settings are in force than those last seen here, and returns them. Cancel-safe.
    ///
    /// Never returns for settings that do not change any more.
    pub async fn changed(&mut self) -> Arc<Settings> {
        if self.now.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        Arc::clone(&self.now.borrow_and_update())
    }
}

/// Settings that stay as they are: of a command, or of a test.
impl From<Settings> for LiveSettings {
    fn from(settings: Settings) -> Self {
        Self::new(settings).1
    }
}
