//! `make demo`: submits one task to a running system, prints its events readably, exits 0 only when it succeeded.
#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use futures_util::StreamExt;
use penstock_loadtest::client::Door;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

/// Longest silence before the demo gives up.
const SILENCE_MAX: Duration = Duration::from_secs(90);

#[derive(Parser)]
#[command(about = "Submits one task to a running Penstock and prints its events")]
struct Arguments {
    /// Agent that runs it.
    #[arg(long, default_value = "assistant")]
    agent: String,
    /// What is asked.
    #[arg(default_value = "Say hello, and tell me in one sentence what a penstock is.")]
    input: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let Arguments { agent, input } = Arguments::parse();
    let door = Door::at(&setting("PENSTOCK_URL")?, &setting("PENSTOCK_KEY")?)?;
    let task = Uuid::now_v7();

    // The socket first: then not even the first event can be missed.
    let mut socket = door.socket(&format!("/api/task/{task}/ws")).await.context("the door refused the socket")?;
    let began = Instant::now();
    let body = json!({ "agent": agent, "input": input, "task_id": task }).to_string();
    let answer = door.request("POST", "/api/task", "", &body).await?;
    println!("POST /api/task  {}  in {} ms", answer.status, began.elapsed().as_millis());
    if answer.status != 202 {
        bail!("the door said no: {}", answer.text);
    }
    println!(
        "task {task}  position {}  estimated wait {} ms",
        answer.body["position"], answer.body["estimated_wait_ms"]
    );

    let (mut printer, mut succeeded) = (Printer { began, is_in_text: false }, None);
    while let Some(frame) = timeout(SILENCE_MAX, socket.next()).await.context("no event for too long")? {
        let Message::Text(text) = frame? else { continue };
        let Ok(event) = serde_json::from_str::<Value>(&text) else { continue };
        printer.print(&event)?;
        match event["type"].as_str() {
            Some("RUN_FINISHED") => succeeded = Some(event["outcome"]["type"] == "success"),
            Some("RUN_ERROR") => succeeded = Some(false),
            _ => {}
        }
    }
    let stored = door.request("GET", &format!("/api/task/{task}"), "", "").await?;
    println!("stored: {}", stored.body["status"]);
    let is_good = succeeded == Some(true) && stored.body["status"] == "succeeded";
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Printer {
    began: Instant,
    is_in_text: bool,
}

impl Printer {
    /// One line per event; the pieces of a text run on in their line.
    fn print(&mut self, event: &Value) -> anyhow::Result<()> {
        let kind = event["type"].as_str().unwrap_or("?");
        if kind == "TEXT_MESSAGE_CONTENT" {
            if !std::mem::replace(&mut self.is_in_text, true) {
                print!("{:>7} ms  {kind:<21} ", self.began.elapsed().as_millis());
            }
            print!("{}", event["delta"].as_str().unwrap_or_default());
            std::io::stdout().flush()?;
            return Ok(());
        }
        if std::mem::take(&mut self.is_in_text) {
            println!();
        }
        let detail = match kind {
            "RUN_FINISHED" => format!("{} {}", event["outcome"]["type"].as_str().unwrap_or("success"), event["usage"]),
            "RUN_ERROR" => format!("{} {}", event["code"], event["message"]),
            "CUSTOM" => format!("{} {}", event["name"], event["value"]),
            _ => String::new(),
        };
        let id = event["metadata"]["penstock"]["id"].as_str().unwrap_or_default();
        println!("{:>7} ms  {kind:<21} {id:<6} {detail}", self.began.elapsed().as_millis());
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "the running system hands over its address in the environment")]
fn setting(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set: run `make up`, or `make start` and `make demo`"))
}
