//! Processes of a house: started, watched, ended by pid.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// A process of the house. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`, its output going to a file in `folder`.
    pub(crate) fn start(
        folder: &Path,
        name: &str,
        program: &Path,
        arguments: &[&str],
        env: &[(String, String)],
    ) -> Self {
        let log = folder.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log).expect("a log file");
        let child = Command::new(program)
            .args(arguments)
            .envs(env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} ({}) does not start: {error}", program.display()));
        Self { name: name.to_owned(), child, log }
    }

    /// Its pid.
    #[must_use]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote so far.
    #[must_use]
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends it without a word, like `kill -9`.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal by name (`TERM`, `STOP`, `CONT`).
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([&format!("-{signal}"), &self.pid().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "{} gets no SIG{signal}", self.name);
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(&mut self, within: Duration) {
        let deadline = Instant::now() + within;
        while self.is_running() {
            assert!(Instant::now() < deadline, "{} still runs after {within:?}", self.name);
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<_> = log.lines().rev().take(25).collect();
            let tail: Vec<_> = tail.into_iter().rev().collect();
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("--- {} ---\n{}\n", self.name, tail.join("\n")).as_bytes(),
            );
        }
    }
}

/// A port that nobody listens on now.
#[must_use]
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Waits until a port accepts connections.
pub(super) async fn listening(port: u16, what: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(Instant::now() < deadline, "{what} does not listen on port {port}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for a state, with a deadline; looks every 20 ms.
pub(crate) async fn wait_until(what: &str, within: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
