//! 64 callers in 3 processes on one Redis against a vendor with a rolling window at the same limits.
//!
//! `cargo run --release -p penstock-gateway --example takers -- [mixed|large] [SECONDS] [MINUTE_MS]`
//! starts a Redis of its own. `mixed`: calls of 600 to 30 000 tokens. `large`: 60 small ones beside one of 30 000.
//! Prints the most that arrived in any window, the vendor's 429s, takes a grant, and settled against reported tokens.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a tool for developers")]

mod fleet;
mod vendor;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fleet::{LARGE_TOKENS, Plan, Report};
use penstock_gateway::settings::Limits;
use vendor::{Allowance, Vendor};

const PROCESSES: usize = 3;
const RPM: u64 = 600;
const TPM: u64 = 2_000_000;
/// Where one call of 30 000 is many small ones.
const TPM_LARGE: u64 = 100_000;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "child") {
        return child(&arguments[1..]).await;
    }
    let scenario = arguments.first().map_or("mixed", String::as_str).to_owned();
    let number = |at: usize, default: u64| arguments.get(at).map_or(default, |text| text.parse().unwrap());
    let (seconds, minute_ms) = (number(1, 300), number(2, 60_000));
    let limits = limits(&scenario);
    let allowance = Allowance { requests: limits.rpm, tokens: limits.tpm, window: Duration::from_millis(minute_ms) };
    let vendor = Vendor::start(allowance).await.unwrap();
    let redis = Redis::start();
    let began = std::time::Instant::now();
    let children: Vec<Child> = (0..PROCESSES)
        .map(|number| {
            Command::new(std::env::current_exe().unwrap())
                .args(["child", &scenario, &number.to_string(), &seconds.to_string(), &minute_ms.to_string()])
                .args([&redis.url, &vendor.base_url])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let reports = tokio::task::spawn_blocking(|| children.into_iter().map(read_report).collect::<Vec<_>>());
    // The last calls wait for their tokens beyond the time given.
    print(&scenario, &reports.await.unwrap(), &vendor, allowance, began.elapsed());
    drop(redis);
}

fn limits(scenario: &str) -> Limits {
    let tpm = if scenario == "large" { TPM_LARGE } else { TPM };
    Limits { rpm: RPM, tpm, ..Limits::default() }
}

/// Sizes of the calls of one process's callers: 64 in all, or 60 and one.
fn callers(scenario: &str, number: usize) -> Vec<(u64, u64)> {
    match scenario {
        "large" => {
            let mut callers = vec![(500, 500); 20];
            if number == 1 {
                callers.push((30_000, 30_000));
            }
            callers
        }
        _ => vec![(600, 30_000); if number == 0 { 22 } else { 21 }],
    }
}

async fn child(arguments: &[String]) {
    let [scenario, number, seconds, minute_ms, redis_url, base_url] = arguments else { panic!("called by hand") };
    let number: usize = number.parse().unwrap();
    let plan = Plan {
        redis_url: redis_url.clone(),
        deployment: "takers".into(),
        base_url: base_url.clone(),
        minute_ms: minute_ms.parse().unwrap(),
        limits: limits(scenario),
        callers: callers(scenario, number),
        run: Duration::from_secs(seconds.parse().unwrap()),
        seed: u64::try_from(number).unwrap() + 1,
    };
    let report = plan.run().await;
    let Report { calls, failed, granted, refused_takes, passes, settled_tokens, large_ms_max, large_calls } = report;
    println!("{calls} {failed} {granted} {refused_takes} {passes} {settled_tokens} {large_ms_max} {large_calls}");
}

fn read_report(mut child: Child) -> Report {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.wait().unwrap();
    let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [calls, failed, granted, refused_takes, passes, settled_tokens, large_ms_max, large_calls] = numbers[..] else {
        panic!("a child died")
    };
    Report { calls, failed, granted, refused_takes, passes, settled_tokens, large_ms_max, large_calls }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn print(scenario: &str, reports: &[Report], vendor: &Vendor, allowance: Allowance, lasted: Duration) {
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let seen = vendor.seen();
    let windows = lasted.as_secs_f64() / allowance.window.as_secs_f64();
    let share = |part: u64, whole: f64| part as f64 / whole;
    println!(
        "{scenario}: {} calls in {} s, {} failed, {} passed without tokens",
        seen.calls,
        lasted.as_secs(),
        sum(|r| r.failed),
        sum(|r| r.passes)
    );
    println!("429 of a rolling window: {}", seen.refused);
    println!(
        "most in any window: {:.3} of the calls, {:.3} of the tokens",
        share(seen.requests_max, allowance.requests as f64),
        share(seen.tokens_max, allowance.tokens as f64)
    );
    println!(
        "use: {:.3} of the calls, {:.3} of the tokens",
        share(seen.calls, allowance.requests as f64 * windows),
        share(seen.tokens, allowance.tokens as f64 * windows)
    );
    println!("takes a grant: {:.2}", 1.0 + share(sum(|r| r.refused_takes), sum(|r| r.granted).max(1) as f64));
    println!("settled tokens {} of {} reported", sum(|r| r.settled_tokens), seen.tokens);
    let large = sum(|r| r.large_calls);
    if scenario == "large" && large > 0 {
        // One round of everybody: 60 small calls and the large one.
        let round_s = (60.0 * 500.0 + 30_000.0) / (allowance.tokens as f64 * 0.95) * allowance.window.as_secs_f64();
        let longest = reports.iter().map(|report| report.large_ms_max).max().unwrap_or(0);
        println!(
            "{large} calls of {LARGE_TOKENS} or more: longest {longest} ms; first come first served {:.0} ms",
            round_s * 1e3
        );
    }
}

struct Redis {
    process: Child,
    url: String,
}

impl Redis {
    fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..200 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { process, url: format!("redis://127.0.0.1:{port}/") }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
