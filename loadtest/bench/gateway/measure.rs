//! Calls through the gateway beside direct ones: what it adds to a call, to the first token, and in CPU time.
//!
//! All in one run and in turn, so that a noisy moment meets all alike. Direct and gateway calls are made by this process, so
//! the difference of CPU time is the gateway's own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use penstock_gateway::{CallScope, ChatMessage, Gateway, ModelChunk, ModelRequest};
use penstock_protocol::{TaskId, TaskKey, TenantNo};

/// Calls under way at once.
const AT_ONCE: [usize; 3] = [1, 16, 64];

#[derive(Args)]
pub(crate) struct Arguments {
    /// Base URL of the provider, as in the settings files.
    #[arg(long)]
    provider: String,
    /// Settings file, as `name=path`; its chain `bench` is called. Several are measured beside each other.
    #[arg(long, value_parser = named)]
    config: Vec<(String, PathBuf)>,
    /// Calls of each round.
    #[arg(long, default_value_t = 2_000)]
    calls: usize,
    /// Rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

fn named(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("must be name=path")?;
    Ok((name.to_owned(), path.into()))
}

/// Who makes the calls.
enum Way {
    Direct(Direct),
    Gateway(Arc<Gateway>),
}

struct Direct {
    client: reqwest::Client,
    url: String,
    body: String,
}

/// Times of the calls of a round, sorted.
struct Round {
    first_token: Vec<Duration>,
    end: Vec<Duration>,
    cpu: Duration,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    ensure!(arguments.calls > 0 && arguments.rounds > 0, "no calls, no figures");
    penstock_gateway::install_tls_provider();
    let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).tls_certs_only([]).http1_only().build()?;
    let direct = Direct {
        client,
        url: format!("{}/chat/completions", arguments.provider.trim_end_matches('/')),
        body: r#"{"model":"instant","messages":[{"role":"user","content":"hello"}],"stream":true,"stream_options":{"include_usage":true}}"#.to_owned(),
    };
    let mut ways = vec![("direct".to_owned(), Arc::new(Way::Direct(direct)))];
    for (name, path) in &arguments.config {
        let gateway = crate::gateway(path).with_context(|| format!("{}", path.display()))?;
        ways.push((name.clone(), Arc::new(Way::Gateway(gateway))));
    }
    println!(
        "Medians of {} rounds of {} calls; `+`: added to direct calls of the same round.",
        arguments.rounds, arguments.calls
    );
    println!(
        "{:>7}  {:<16}{:>12}{:>12}{:>14}{:>12}{:>14}",
        "at once", "way", "P50 ms", "P99 ms", "first P50 ms", "CPU µs", "CPU s / 1 000"
    );
    for at_once in AT_ONCE {
        for (_, way) in &ways {
            round(way, at_once, arguments.calls / 10 + 1).await?; // connections, caches
        }
        let mut rounds = Vec::new();
        for _ in 0..arguments.rounds {
            let mut of_ways = Vec::new();
            for (_, way) in &ways {
                of_ways.push(round(way, at_once, arguments.calls).await?);
            }
            rounds.push(of_ways);
        }
        for (number, (name, _)) in ways.iter().enumerate() {
            show(at_once, name, number, &rounds, arguments.calls);
        }
    }
    Ok(())
}

fn show(at_once: usize, name: &str, way: usize, rounds: &[Vec<Round>], calls: usize) {
    let figure = |of: &dyn Fn(&Round) -> f64| {
        let base = |round: &[Round]| if way == 0 { 0.0 } else { of(&round[0]) };
        let mut values: Vec<_> = rounds.iter().map(|round| of(&round[way]) - base(round)).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let sign = if way == 0 { "" } else { "+" };
    let ms = |times: &[Duration], percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    let cpu_us = figure(&|round| round.cpu.as_secs_f64() * 1e6 / calls as f64);
    println!(
        "{at_once:>7}  {name:<16}{:>12}{:>12}{:>14}{:>12}{:>14}",
        format!("{sign}{:.3}", figure(&|round| ms(&round.end, 50))),
        format!("{sign}{:.3}", figure(&|round| ms(&round.end, 99))),
        format!("{sign}{:.3}", figure(&|round| ms(&round.first_token, 50))),
        format!("{sign}{cpu_us:.0}"),
        format!("{sign}{:.3}", cpu_us / 1e3),
    );
}

async fn round(way: &Arc<Way>, at_once: usize, calls: usize) -> anyhow::Result<Round> {
    let left = Arc::new(AtomicUsize::new(calls));
    let before = cpu()?;
    let callers: Vec<_> = (0..at_once)
        .map(|_| {
            let (way, left) = (Arc::clone(way), Arc::clone(&left));
            tokio::spawn(async move {
                let (mut first_token, mut end) = (Vec::new(), Vec::new());
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                    let began = Instant::now();
                    first_token.push(way.call(began).await?);
                    end.push(began.elapsed());
                }
                anyhow::Ok((first_token, end))
            })
        })
        .collect();
    let (mut first_token, mut end) = (Vec::new(), Vec::new());
    for caller in callers {
        let (first, last) = caller.await??;
        first_token.extend(first);
        end.extend(last);
    }
    let cpu = cpu()?.saturating_sub(before);
    first_token.sort_unstable();
    end.sort_unstable();
    Ok(Round { first_token, end, cpu })
}

impl Way {
    /// One streamed call, read to its end. Returns when its first token was there.
    async fn call(&self, began: Instant) -> anyhow::Result<Duration> {
        match self {
            Self::Direct(direct) => {
                let request = direct.client.post(&direct.url).header("content-type", "application/json");
                let mut response = request.body(direct.body.clone()).send().await?.error_for_status()?;
                let (mut first, mut body) = (None, Vec::new());
                while let Some(bytes) = response.chunk().await? {
                    first.get_or_insert_with(|| began.elapsed());
                    body.extend_from_slice(&bytes);
                }
                ensure!(body.ends_with(b"data: [DONE]\n\n"), "the provider's answer is not whole");
                first.context("the provider's answer is empty")
            }
            Self::Gateway(gateway) => {
                let request = ModelRequest {
                    chain: "bench".to_owned(),
                    messages: vec![ChatMessage::user("hello")],
                    ..ModelRequest::default()
                };
                let scope = CallScope::of(TaskKey::new(TenantNo(1), TaskId::mint()));
                let mut answer = gateway.stream(&request, &scope).await?;
                let (first, mut is_whole) = (began.elapsed(), false);
                while let Some(chunk) = answer.next().await {
                    is_whole = matches!(chunk?, ModelChunk::Finish { .. });
                }
                ensure!(is_whole, "the answer is not whole");
                Ok(first)
            }
        }
    }
}

/// CPU time of this process, user and system.
fn cpu() -> anyhow::Result<Duration> {
    // Nanoseconds on a core, of every thread that lives; the file of the process counts in ticks of 10 ms.
    let mut total_ns = 0_u64;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        total_ns += stat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(total_ns))
}
