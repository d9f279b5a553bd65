//! The commands as an operator's shell runs them.
#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected must fail")]

use std::process::{Command, Output};

use penstock_store::fixture::TestDatabase;

/// Runs the program with only these variables.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_penstock-api"))
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refusal(output: &Output) -> String {
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "what went wrong does not go to standard output");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test]
async fn tenants_and_keys_are_made_listed_and_revoked() {
    let database = TestDatabase::create().await;
    let here = [("DATABASE_URL", database.url.as_str())];
    out(&run(&["migrate"], &here));
    assert!(out(&run(&["tenant", "create", "acme"], &here)).contains("acme"));
    assert!(refusal(&run(&["tenant", "create", "acme"], &here)).contains("exists already"));
    assert!(refusal(&run(&["tenant", "create", "two words"], &here)).contains("1 to 64"));

    out(&run(&["tenant", "set", "acme", "--weight", "3", "--running-max", "5", "--start-rate", "2/s"], &here));
    assert!(out(&run(&["tenant", "list"], &here)).contains("acme\tactive\tweight=3 running-max=5 start-rate=120/m"));
    out(&run(&["tenant", "set", "acme", "--running-max", "default", "--start-rate", "none"], &here));
    assert!(out(&run(&["tenant", "list"], &here)).ends_with("acme\tactive\tweight=3\n"));
    assert!(refusal(&run(&["tenant", "set", "acme"], &here)).contains("at least one"));
    assert!(refusal(&run(&["tenant", "set", "nobody", "--weight", "2"], &here)).contains("nobody"));
    assert!(refusal(&run(&["tenant", "set", "acme", "--weight", "0"], &here)).contains("weight"));
    assert!(out(&run(&["tenant", "create", "bird", "--live-max", "9"], &here)).contains("bird"));
    assert!(out(&run(&["tenant", "list"], &here)).contains("bird\tactive\tlive-max=9"));

    assert!(out(&run(&["pause", "tenant", "acme"], &here)).starts_with("tenant\tacme\t"));
    out(&run(&["pause", "queue"], &here));
    assert_eq!(out(&run(&["pause", "list"], &here)).lines().count(), 2);
    assert!(out(&run(&["resume", "queue"], &here)).starts_with("tenant\tacme\t"));
    assert_eq!(out(&run(&["resume", "tenant", "acme"], &here)), "");
    assert!(refusal(&run(&["pause", "tenant", "nobody"], &here)).contains("nobody"));

    let key = out(&run(&["key", "create", "--tenant", "acme", "--scopes", "submit,read", "--name", "ci"], &here));
    assert!(
        key.starts_with("psk_") && key.ends_with('\n') && key.trim_end().len() == 47,
        "the key stands alone: {key:?}"
    );
    assert_ne!(key, out(&run(&["key", "create", "--tenant", "acme", "--expires-days", "1"], &here)));
    assert!(refusal(&run(&["key", "create", "--tenant", "nobody"], &here)).contains("nobody"));
    assert!(refusal(&run(&["key", "create", "--tenant", "acme", "--scopes", "fly"], &here)).contains("fly"));

    let list = out(&run(&["key", "list"], &here));
    assert!(list.contains("acme\tci\tsubmit,read\tactive") && list.contains("submit,read,chat\tactive"), "{list}");
    assert!(!list.contains(key.trim_end()));
    let number = list.split('\t').next().unwrap();
    out(&run(&["key", "revoke", number], &here));
    assert!(out(&run(&["key", "list"], &here)).contains("acme\tci\tsubmit,read\trevoked"));
    assert!(refusal(&run(&["key", "revoke", "999"], &here)).contains("999"));

    out(&run(&["tenant", "revoke", "acme"], &here));
    assert!(out(&run(&["tenant", "list"], &here)).contains("acme\trevoked"));
    database.drop_database().await;
}

#[test]
fn settings_are_printed_without_secrets_and_refused_with_their_path() {
    let secret = [("DATABASE_URL", "mysql://u:hunter2@127.0.0.1:1/d"), ("PENSTOCK_QUEUE__DEPTH_MAX", "70000")];
    let effective = out(&run(&["config"], &secret));
    assert!(effective.contains("depth_max = 70000  # PENSTOCK_QUEUE__DEPTH_MAX"), "{effective}");
    assert!(!effective.contains("hunter2"));
    assert!(out(&run(&["config", "--reference"], &[])).contains("depth_max"));

    let file = std::env::temp_dir().join(format!("penstock-cli-{}.toml", std::process::id()));
    let path = file.to_str().unwrap();
    std::fs::write(&file, "[queue]\ndepth_max = 7\ntenant_depth_max = 7\n").unwrap();
    out(&run(&["check-config", path], &[]));
    assert!(out(&run(&["--config", path, "config"], &[])).contains("depth_max = 7  #"));
    std::fs::write(&file, "[queue]\ndepht_max = 7\n").unwrap();
    assert!(refusal(&run(&["check-config", path], &[])).contains("queue.depht_max"));
    assert!(refusal(&run(&["serve", "--config", path], &[])).contains("queue.depht_max"));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_probe_succeeds_on_2xx_only() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || {
        for status in ["200 OK", "503 Service Unavailable"] {
            let (mut stream, _) = server.accept().unwrap();
            let mut head = [0; 512];
            let length = std::io::Read::read(&mut stream, &mut head).unwrap();
            assert!(head[..length].starts_with(b"GET /readyz HTTP/1.1\r\n"));
            std::io::Write::write_all(&mut stream, format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).unwrap();
        }
    });
    let url = format!("http://{address}/readyz");
    out(&run(&["probe", &url], &[]));
    assert!(refusal(&run(&["probe", &url], &[])).contains("503"));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    refusal(&run(&["probe", &format!("http://{closed}/")], &[]));
    refusal(&run(&["probe", "ftp://x"], &[]));
}

#[tokio::test]
async fn a_door_serves_until_sigterm_and_waits_for_a_redis_that_is_away() {
    let database = TestDatabase::create().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let redis = std::env::var_os("PENSTOCK_TEST_REDIS_URL").unwrap();
    let deployment = format!("t-{}", &uuid::Uuid::new_v4().simple().to_string()[..20]);
    let serve = |redis: &std::ffi::OsStr| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_penstock-api"));
        command.env_clear().env("DATABASE_URL", &database.url).env("REDIS_URL", redis);
        command.env("PENSTOCK_API__LISTEN", &free).env("PENSTOCK_DEPLOYMENT__ID", &deployment);
        command.stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let stopped = |child: std::process::Child| {
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stderr).unwrap()
    };
    let child = serve(&redis);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !run(&["probe", &format!("http://{free}/readyz")], &[]).status.success() {
        assert!(std::time::Instant::now() < deadline, "the door is not ready");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let log = stopped(child);
    assert!(log.contains(&format!("serving on {free}")) && log.contains("stopped"), "{log}");

    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut child = serve(format!("redis://{nobody}/").as_ref());
    let mut log = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut log, &mut line).unwrap();
    assert!(line.contains("waiting for Redis"), "{line}");
    stopped(child);
    database.drop_database().await;
}

#[test]
fn the_documents_made_from_the_code_are_up_to_date() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    for (command, file) in [("openapi", "openapi.json"), ("errors", "errors.md")] {
        let stored = std::fs::read_to_string(docs.join(file)).unwrap_or_else(|error| panic!("docs/{file}: {error}"));
        assert!(
            stored == out(&run(&[command], &[])),
            "docs/{file} is not what the code says: run scripts/generated write"
        );
    }
}
