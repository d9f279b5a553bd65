//! `penstock-worker try MODEL PROMPT`: one real call through the gateway of these settings, and what each stage decided.
//!
//! Nothing else is needed: no Redis, no MySQL, no running system. Stages speak by their own log lines, which this command
//! lets through; what comes of the call is printed with the time at which it came.

#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::io::{Write, stdout};
use std::time::Duration;

use anyhow::{Context, bail};
use penstock_config::{Chain, Hop, Log, LogFormat, Settings};
use penstock_gateway::{CallScope, ChatMessage, ModelChunk, ModelRequest};
use penstock_protocol::{TaskId, TaskKey, TenantNo};
use penstock_telemetry::Metrics;
use tokio::time::Instant;

use crate::models;

/// Chain under which a single `provider/model` is called.
const CHAIN: &str = "penstock-worker try";

/// Calls `model`, a chain of the settings or `provider/model`, with `prompt`.
pub(crate) async fn run(mut settings: Settings, model: &str, prompt: &str) -> anyhow::Result<()> {
    let log = Log { filter: "warn,penstock_gateway=debug".to_owned(), format: LogFormat::Text };
    penstock_telemetry::start_logs(&log)?;
    let chain = chain(&mut settings, model)?;
    let hops = settings.chains.get(&chain).map(|chain| chain.hops.as_slice()).unwrap_or_default();
    let hops: Vec<_> = hops.iter().map(|hop| format!("{}/{}", hop.exit.provider, hop.exit.model)).collect();
    println!("route        {}", hops.join(" → "));
    let gateway = models::gateway(&settings, &Metrics::new())?;

    let request = ModelRequest { chain, messages: vec![ChatMessage::user(prompt)], ..ModelRequest::default() };
    let scope = CallScope::of(TaskKey::new(TenantNo(0), TaskId::mint()));
    let began = Instant::now();
    let mut answer = match gateway.stream(&request, &scope).await {
        Ok(answer) => answer,
        Err(error) => bail!("{:>9}  {error}", ms(began.elapsed())),
    };
    let first_token = began.elapsed();
    println!("served by    {}/{} after {} attempt(s)", answer.provider(), answer.model(), answer.attempts());
    if let Some(fallback) = answer.fallback() {
        println!("instead of   {} ({})", fallback.from, fallback.reason.as_str());
    }
    println!("first token  {}", ms(first_token));
    let mut show = Show::Nothing;
    while let Some(chunk) = answer.next().await {
        match chunk.with_context(|| format!("the answer broke off after {}", ms(began.elapsed())))? {
            ModelChunk::Reasoning(text) => show.piece(Show::Reasoning, &text)?,
            ModelChunk::Text(text) => show.piece(Show::Text, &text)?,
            ModelChunk::ToolCall(call) => show.line(&format!("tool call    {}({})", call.name, call.arguments))?,
            ModelChunk::Usage(usage) => {
                let count = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
                show.line(&format!(
                    "usage        {} in ({} cached), {} out ({} reasoning)",
                    count(usage.input_tokens),
                    count(usage.cached_input_tokens),
                    count(usage.output_tokens),
                    count(usage.reasoning_tokens),
                ))?;
            }
            ModelChunk::Finish { reason } => {
                show.line(&format!("end          {}, {}", ms(began.elapsed()), reason.as_str()))?;
            }
            // Pieces of what comes whole.
            ModelChunk::ReasoningBlock(_) | ModelChunk::ToolCallStart { .. } | ModelChunk::ToolCallArguments { .. } => {
            }
        }
    }
    Ok(())
}

/// The name of the chain to call, declared here where `model` is a single exit.
fn chain(settings: &mut Settings, model: &str) -> anyhow::Result<String> {
    if settings.chains.contains_key(model) {
        return Ok(model.to_owned());
    }
    let hop: Hop = serde_json::from_value(model.into()).with_context(|| {
        let chains: Vec<_> = settings.chains.keys().map(String::as_str).collect();
        format!("`{model}` is neither a chain ({}) nor `provider/model`", chains.join(", "))
    })?;
    if !settings.providers.contains_key(&hop.exit.provider) {
        bail!("[providers.{}] is not in the settings", hop.exit.provider);
    }
    settings.chains.insert(CHAIN.to_owned(), Chain { hops: vec![hop] });
    Ok(CHAIN.to_owned())
}

/// What stands in the open line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    Nothing,
    Reasoning,
    Text,
}

impl Show {
    /// Goes on in the open line of this kind, or begins one.
    fn piece(&mut self, kind: Self, text: &str) -> std::io::Result<()> {
        if *self != kind {
            self.close()?;
            let name = if kind == Self::Reasoning { "reasoning" } else { "text" };
            write!(stdout(), "{name:<13}")?;
            *self = kind;
        }
        write!(stdout(), "{text}")?;
        stdout().flush()
    }

    fn line(&mut self, line: &str) -> std::io::Result<()> {
        self.close()?;
        writeln!(stdout(), "{line}")
    }

    fn close(&mut self) -> std::io::Result<()> {
        if std::mem::replace(self, Self::Nothing) == Self::Nothing { Ok(()) } else { writeln!(stdout()) }
    }
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
