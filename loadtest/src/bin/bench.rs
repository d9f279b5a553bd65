//! `penstock-bench`: throughput of a running system through its HTTP door, beside the floor, in one run.
#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use penstock_loadtest::client::Door;
use penstock_loadtest::throughput::load::{Load, Loaded, run};
use penstock_loadtest::throughput::{cpu, floor};

#[derive(Parser)]
#[command(about = "Tasks a second from POST to terminal event, beside a bare floor in the same run")]
struct Arguments {
    /// Tasks in each round.
    #[arg(long, default_value_t = 20_000)]
    tasks: usize,
    /// Tasks under way at once.
    #[arg(long, default_value_t = 200)]
    in_flight: usize,
    /// Sockets on which ends are heard.
    #[arg(long, default_value_t = 4)]
    sockets: usize,
    /// Rounds of each, in turn.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Agent of the running system.
    #[arg(long, default_value = "instant")]
    agent: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let door = Door::at(&setting("PENSTOCK_URL")?, &setting("PENSTOCK_KEY")?)?;
    let pids = PathBuf::from(setting("PENSTOCK_PID_DIR")?);
    let bare = Door { address: floor::start(&setting("REDIS_URL")?).await?, key: String::new() };
    let load = |door: &Door, tasks| Load {
        door: door.clone(),
        agent: arguments.agent.clone(),
        tasks,
        in_flight: arguments.in_flight,
        sockets: arguments.sockets,
    };

    let idle = cpu::usage(&pids).context("the pid files of the running system")?;
    let (mut of_floor, mut of_door, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // A short round of each first: connections, prepared statements, caches.
    run(&load(&bare, arguments.tasks / 10)).await?;
    run(&load(&door, arguments.tasks / 10)).await?;
    let mut used = cpu::Usage::new();
    for round in 1..=arguments.rounds {
        let floor = run(&load(&bare, arguments.tasks)).await?;
        let before = cpu::usage(&pids)?;
        let loaded = run(&load(&door, arguments.tasks)).await?;
        for (kind, (cpu_s, resident)) in cpu::usage(&pids)? {
            let sum = used.entry(kind.clone()).or_default();
            sum.0 += cpu_s - before.get(&kind).map_or(0.0, |before| before.0);
            sum.1 = resident;
        }
        show(&format!("floor {round}"), &floor);
        show(&format!("penstock {round}"), &loaded);
        ratios.push(loaded.rate() / floor.rate());
        of_floor.push(floor.rate());
        of_door.push(loaded.rate());
    }
    println!();
    summary("floor, tasks/s", &mut of_floor, 0);
    summary("penstock, tasks/s", &mut of_door, 0);
    summary("penstock ÷ floor", &mut ratios, 2);
    println!();
    println!("{:<10} {:>14} {:>12} {:>12}", "process", "CPU µs a task", "RSS MB", "idle RSS MB");
    let tasks = (arguments.tasks * arguments.rounds) as f64;
    for (kind, (cpu_s, resident)) in &used {
        let idle = idle.get(kind).map_or(0.0, |idle| idle.1);
        println!("{kind:<10} {:>14.0} {resident:>12.1} {idle:>12.1}", cpu_s * 1e6 / tasks);
    }
    Ok(())
}

fn show(name: &str, loaded: &Loaded) {
    println!(
        "{name:<12} {:>8.0} tasks/s   POST to end p50 {:>6.1} ms, p95 {:>6.1} ms, p99 {:>6.1} ms",
        loaded.rate(),
        loaded.end_ms(50),
        loaded.end_ms(95),
        loaded.end_ms(99)
    );
}

/// Median with minimum and maximum.
fn summary(name: &str, values: &mut [f64], digits: usize) {
    values.sort_by(f64::total_cmp);
    if let (Some(least), Some(most)) = (values.first(), values.last()) {
        let median = values[values.len() / 2];
        println!("{name:<20} median {median:>8.digits$}   min {least:>8.digits$}   max {most:>8.digits$}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the running system hands over its address in the environment")]
fn setting(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set: run `make bench`"))
}
