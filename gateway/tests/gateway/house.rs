//! A gateway and a fake provider, built anew for each test.

use std::collections::BTreeMap;
use std::time::Duration;

use penstock_gateway::settings::{
    AnswerBounds, BreakerSettings, CacheSettings, Dialect, Exit, GateSettings, Hop, HopOptions, ParkingSettings,
    Provider, RetryBudgetSettings, RetrySettings, Timers,
};
use penstock_gateway::{
    CallFailed, CallScope, ChatMessage, Gateway, GatewayError, GatewayMetrics, ModelChunk, ModelRequest, ModelStream,
    Settings,
};
use penstock_loadtest::fake::{FakeProvider, Rule, Script, Stats};
use penstock_protocol::{TaskId, TaskKey, TenantNo};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// Longest wait for a state in a test.
const PATIENCE: Duration = Duration::from_secs(20);

/// A chain of each dialect: OpenAI's, Anthropic's, Google's. Tests of what is the same for all use the first.
pub(crate) const CHAINS: [&str; 3] = ["chain", "anthropic", "gemini"];
const PROVIDERS: [&str; 3] = ["fake", "anthropic", "gemini"];

pub(crate) struct House {
    pub(crate) provider: FakeProvider,
    pub(crate) gateway: Gateway,
    settings: Mutex<Settings>,
    registry: Registry,
}

/// How the calls of one model are answered, one after another; the last behaviour stays.
pub(crate) struct Scripted<'a> {
    pub(crate) model: &'a str,
    pub(crate) behaviours: &'a [&'a str],
}

/// Short timers, so that tests of them are short; they are settings like any others.
pub(crate) fn settings(base_url: &str) -> Settings {
    let provider = Provider { api_key: Some("sk-test".to_owned().into()), ..Provider::at(base_url) };
    let anthropic = Provider { dialect: Dialect::Anthropic, ..provider.clone() };
    // `/v1` becomes `/v1beta`.
    let gemini = Provider {
        dialect: Dialect::Gemini,
        endpoints: Provider::at(format!("{base_url}beta")).endpoints,
        ..provider.clone()
    };
    Settings {
        providers: PROVIDERS.into_iter().map(str::to_owned).zip([provider, anthropic, gemini]).collect(),
        chains: CHAINS.into_iter().zip(PROVIDERS).map(|(name, of)| (name.into(), vec![hop(of, "m")])).collect(),
        models: BTreeMap::new(),
        timers: Timers {
            connect: Duration::from_secs(1),
            first_token: Duration::from_secs(5),
            idle: Duration::from_secs(5),
            total: Duration::from_secs(10),
        },
        gate: GateSettings { permits: 64, spacing: Duration::ZERO, push_back: Duration::from_millis(400) },
        retry: retry(2, Duration::from_secs(10)),
        breaker: BreakerSettings { failures: 0, ..BreakerSettings::default() },
        parking: ParkingSettings { plan_exhausted: Duration::from_secs(300), denied: Duration::from_secs(60) },
        answer: AnswerBounds { event_bytes_max: 1 << 20, body_bytes_max: 32 << 20 },
        tenant_calls_max: 0,
        hedge_after: Duration::ZERO,
        cache: CacheSettings { bytes_max: 1 << 20, answer_bytes_max: 1 << 16, keep: Duration::from_secs(60) },
        idle_connections_max: 64,
    }
}

pub(crate) fn hop(provider: &str, model: &str) -> Hop {
    let exit = Exit { provider: provider.into(), model: model.into() };
    Hop { exit, options: HopOptions::default() }
}

/// A budget that no test of something else uses up.
pub(crate) fn retry(attempts: u32, time_box: Duration) -> RetrySettings {
    let budget = RetryBudgetSettings { percent: 100, per_second: 1_000, burst: 1_000 };
    RetrySettings { attempts, time_box, wait: Duration::from_secs(5), hint_max: Duration::from_secs(60), budget }
}

pub(crate) async fn house() -> House {
    house_with(|_| {}).await
}

pub(crate) async fn house_with(change: impl FnOnce(&mut Settings)) -> House {
    scripted(&[], change).await
}

pub(crate) async fn scripted(script: &[Scripted<'_>], change: impl FnOnce(&mut Settings)) -> House {
    let rules = script.iter().map(|scripted| Rule {
        model: Some(scripted.model.to_owned()),
        behaviours: scripted.behaviours.iter().map(|behaviour| (*behaviour).to_owned()).collect(),
        ..Rule::default()
    });
    let provider = FakeProvider::start(Script { rules: rules.collect() }).await.unwrap();
    let mut settings = settings(&provider.base_url());
    change(&mut settings);
    let mut registry = Registry::with_prefix("penstock");
    let gateway = Gateway::new(&settings, GatewayMetrics::register(&mut registry)).unwrap();
    House { provider, gateway, settings: Mutex::new(settings), registry }
}

/// The same of a chain.
pub(crate) fn request_of(chain: &str, behaviour: &str) -> ModelRequest {
    ModelRequest { chain: chain.into(), ..request(behaviour) }
}

/// A call that the fake provider answers by `behaviour`.
pub(crate) fn request(behaviour: &str) -> ModelRequest {
    let message = ChatMessage::user(format!("hello [[fake: {behaviour}]]"));
    ModelRequest { chain: "chain".into(), messages: vec![message], ..ModelRequest::default() }
}

pub(crate) fn scope() -> CallScope {
    CallScope::of(TaskKey::new(TenantNo(7), TaskId::mint()))
}

impl House {
    pub(crate) async fn open(&self, behaviour: &str) -> Result<ModelStream, GatewayError> {
        self.gateway.stream(&request(behaviour), &scope()).await
    }

    /// Asks a chain and reads to the end.
    pub(crate) async fn ask_chain(&self, chain: &str, behaviour: &str) -> (Vec<ModelChunk>, Option<CallFailed>) {
        match self.gateway.stream(&request_of(chain, behaviour), &scope()).await {
            Ok(stream) => read(stream).await,
            Err(error) => (Vec::new(), Some(failed(error))),
        }
    }

    /// Asks and reads to the end: the chunks, and the failure that ended them. A failure before the first token too.
    pub(crate) async fn ask(&self, behaviour: &str) -> (Vec<ModelChunk>, Option<CallFailed>) {
        match self.open(behaviour).await {
            Ok(stream) => read(stream).await,
            Err(error) => (Vec::new(), Some(failed(error))),
        }
    }

    /// Changes the settings of the running gateway.
    pub(crate) async fn reconfigure(&self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.settings.lock().await;
        change(&mut settings);
        self.gateway.reconfigure(&settings).unwrap();
    }

    pub(crate) fn stats(&self) -> Stats {
        self.provider.stats()
    }

    /// How many attempts were counted with this verdict.
    pub(crate) fn counted(&self, verdict: &str) -> u64 {
        let start = format!(r#"penstock_model_calls_total{{provider="fake",model="m",verdict="{verdict}"}} "#);
        self.metrics().lines().find_map(|line| line.strip_prefix(&start)).map_or(0, |count| count.parse().unwrap())
    }

    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }

    /// Waits until the provider has seen `count` calls closed by their caller.
    pub(crate) async fn closed_by_caller(&self, count: u64) {
        eventually("the provider sees the close", || self.stats().closed_by_caller == count).await;
        assert_eq!(self.stats().in_flight, 0);
    }
}

pub(crate) fn failed(error: GatewayError) -> CallFailed {
    match error {
        GatewayError::Failed(failed) => failed,
        other => panic!("{other}"),
    }
}

pub(crate) async fn read(mut stream: ModelStream) -> (Vec<ModelChunk>, Option<CallFailed>) {
    let mut chunks = Vec::new();
    loop {
        match stream.next().await {
            None => return (chunks, None),
            Some(Ok(chunk)) => chunks.push(chunk),
            Some(Err(failed)) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (chunks, Some(failed));
            }
        }
    }
}

/// Text of an answer, with the text chunks joined, and everything else.
pub(crate) fn text_and_rest(chunks: Vec<ModelChunk>) -> (String, Vec<ModelChunk>) {
    let (mut text, mut rest) = (String::new(), Vec::new());
    for chunk in chunks {
        match chunk {
            ModelChunk::Text(piece) => text.push_str(&piece),
            other => rest.push(other),
        }
    }
    (text, rest)
}

pub(crate) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
