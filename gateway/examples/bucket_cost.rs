//! What a call costs Redis: commands, CPU and bytes of a take and its settlement, by the server's own count.
//!
//! `cargo run --release -p penstock-gateway --example bucket_cost -- [SECONDS]` starts a Redis of its own (AOF, everysec).
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a tool for developers")]

#[path = "takers/fleet.rs"]
#[expect(dead_code, reason = "the other example uses the rest")]
mod fleet;
#[path = "takers/vendor.rs"]
#[expect(dead_code, reason = "the other example uses the rest")]
mod vendor;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fleet::Plan;
use penstock_gateway::settings::Limits;
use vendor::{Allowance, Vendor};

const CALLERS: usize = 16;

#[tokio::main]
async fn main() {
    let seconds = std::env::args().nth(1).map_or(5, |text| text.parse().unwrap());
    let many = 1_000_000_000;
    let shapes = [
        ("calls and tokens", Limits { rpm: many, tpm: many, ..Limits::default() }),
        ("input and output apart", Limits { rpm: many, input_tpm: many, output_tpm: many, ..Limits::default() }),
        ("with both day counters", Limits { rpm: many, tpm: many, rpd: many, tpd: many * 100, ..Limits::default() }),
    ];
    let allowance = Allowance { requests: u64::MAX, tokens: u64::MAX, window: Duration::from_secs(1) };
    let vendor = Vendor::start(allowance).await.unwrap();
    println!("limits | calls | both scripts by commandstats | CPU of the server");
    for (name, limits) in shapes {
        let redis = Redis::start();
        let plan = Plan {
            redis_url: redis.url.clone(),
            deployment: "cost".into(),
            base_url: vendor.base_url.clone(),
            minute_ms: 60_000,
            limits,
            callers: vec![(600, 600); CALLERS],
            run: Duration::from_secs(seconds),
            seed: 1,
        };
        let mut connection =
            redis::Client::open(redis.url.as_str()).unwrap().get_multiplexed_async_connection().await.unwrap();
        let before = cpu_us(&mut connection).await;
        let report = plan.run().await;
        let cpu = cpu_us(&mut connection).await - before;
        let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
        let fcall = stats.lines().find(|line| line.starts_with("cmdstat_fcall:")).unwrap_or("none").to_owned();
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let a_call = cpu / report.granted.max(1) as f64;
        println!("{name} | {} | {fcall} | {a_call:.1} µs of CPU a call", report.granted);
    }
}

/// CPU time of the server's main thread: kernel and user, in microseconds.
async fn cpu_us(connection: &mut redis::aio::MultiplexedConnection) -> f64 {
    let cpu: String = redis::cmd("INFO").arg("cpu").query_async(connection).await.unwrap();
    let seconds = |name: &str| -> f64 {
        cpu.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok()).unwrap_or(0.0)
    };
    (seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread")) * 1e6
}

struct Redis {
    process: Child,
    folder: std::path::PathBuf,
    url: String,
}

impl Redis {
    fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = std::env::temp_dir().join(format!("penstock-bucket-cost-{port}"));
        std::fs::create_dir_all(&folder).unwrap();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..200 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { process, folder, url: format!("redis://127.0.0.1:{port}/") }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
