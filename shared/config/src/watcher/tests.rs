use prometheus_client::registry::Registry;
use tokio::time::timeout;

use super::*;

/// A settings file of one's own, followed.
struct Followed {
    path: PathBuf,
    live: LiveSettings,
    registry: Registry,
    following: tokio::task::JoinHandle<()>,
}

impl Followed {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("penstock-watcher-{name}-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let mut registry = Registry::default();
        let metrics = SettingsMetrics::default();
        metrics.register(&mut registry);
        let (live, watcher) = Watcher::new(crate::load(Some(&path)).unwrap(), metrics);
        Self { path, live, registry, following: tokio::spawn(watcher.run()) }
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.path, text).unwrap();
    }

    async fn changed(&mut self) -> Arc<Settings> {
        timeout(Duration::from_secs(30), self.live.changed()).await.expect("the change takes effect")
    }

    async fn until_counted(&self, line: &str) {
        let counted = async {
            loop {
                let mut text = String::new();
                prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
                if text.lines().any(|counted| counted == line) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(30), counted).await.unwrap_or_else(|_| panic!("never counted: {line}"));
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.following.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

#[tokio::test]
async fn a_hot_key_takes_effect_and_a_cold_one_waits_for_a_restart() {
    let mut file = Followed::new("hot", "[queue]\ndepth_max = 20000\n");
    file.write("[queue]\ndepth_max = 30000\nlease_ms = 60000\n[worker]\nanswer_bytes_max = 2048\n");
    let now = file.changed().await;
    assert_eq!((now.queue.depth_max, now.worker.answer_bytes_max), (30_000, 2048));
    assert_eq!(now.queue.lease, Duration::from_secs(15), "a lease is agreed on at start");
    file.until_counted("settings_restart_needed_keys 1").await;
    file.until_counted("settings_reloads_total{outcome=\"Applied\"} 1").await;
    file.write("[queue]\ndepth_max = 30000\n");
    file.changed().await;
    file.until_counted("settings_restart_needed_keys 0").await;
}

#[tokio::test]
async fn a_bad_file_is_refused_whole_and_a_good_one_mends_it() {
    let mut file = Followed::new("bad", "[queue]\ndepth_max = 20000\n");
    for bad in ["[queue]\ndepth_max = 30000\ndepht_max = 1\n", "[queue]\ndepth_max = 0\n", "[queue\n"] {
        file.write(bad);
        file.until_counted("settings_refused 1").await;
        assert_eq!(file.live.now().queue.depth_max, 20_000, "{bad}");
        file.write("[queue]\ndepth_max = 20000\n");
        file.until_counted("settings_refused 0").await;
    }
    std::fs::remove_file(&file.path).unwrap();
    file.until_counted("settings_refused 1").await;
    file.until_counted("settings_reloads_total{outcome=\"Refused\"} 4").await;
    file.write("[queue]\ndepth_max = 25000\n");
    assert_eq!(file.changed().await.queue.depth_max, 25_000);
}

#[tokio::test]
async fn hot_values_must_fit_the_cold_ones_in_force() {
    let file = Followed::new("fit", "[queue]\ndepth_max = 20000\n");
    // As written it is consistent, but a shorter time-out of MySQL comes with a restart only.
    file.write("[mysql]\ntimeout_ms = 1000\n[api]\nrequest_timeout_ms = 4000\n");
    file.until_counted("settings_refused 1").await;
    assert_eq!(file.live.now().api.request_timeout, Duration::from_secs(30));
}

#[tokio::test]
async fn agents_come_and_go_while_the_process_runs() {
    let mut file = Followed::new("agents", "[agents.a]\nchain = \"default\"\n");
    file.write("[agents.b]\nchain = \"default\"\ninstructions = \"Be brief.\"\n");
    let now = file.changed().await;
    assert_eq!(now.agents.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(now.agents["b"].instructions, "Be brief.");
}
