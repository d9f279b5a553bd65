//! `penstock-worker try`: a real call without any running system.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Output;

use penstock_loadtest::fake::{FakeProvider, Script};
use tokio::process::Command;

async fn trial(provider: &FakeProvider, model: &str, prompt: &str) -> (bool, String, String) {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../loadtest/penstock.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstock-worker"));
    command.args(["try", model, prompt, "--config", config]).env_clear();
    command.env("PENSTOCK_PROVIDERS__FAKE__BASE_URL", provider.base_url());
    // Nothing listens there: the command needs no other part of a system.
    command.env("REDIS_URL", "redis://127.0.0.1:1/").env("DATABASE_URL", "mysql://x:x@127.0.0.1:1/x");
    let Output { status, stdout, stderr } = command.output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.success(), text(stdout), text(stderr))
}

#[tokio::test]
async fn a_chain_and_a_single_exit_are_called_and_told_about() {
    let provider = FakeProvider::start(Script::default()).await.unwrap();
    for model in ["instant", "fake/instant"] {
        let (is_good, said, log) = trial(&provider, model, "hello [[fake: chunks=3,reasoning=1]]").await;
        assert!(is_good, "{said}{log}");
        for part in [
            "route        fake/instant\n",
            "served by    fake/instant after 1 attempt(s)\n",
            "reasoning    thought-1 \n",
            "text         [1 messages] hello word-1 word-2\n",
            "usage        ",
            "end          ",
        ] {
            assert!(said.contains(part), "`{part}` is not in\n{said}{log}");
        }
    }
    assert_eq!(provider.stats().calls, 2);
}

#[tokio::test]
async fn what_each_stage_decided_stands_in_the_log() {
    let provider = FakeProvider::start(Script::default()).await.unwrap();
    let (is_good, said, log) = trial(&provider, "instant", "hello [[fake: status=500 then instant]]").await;
    assert!(is_good, "{said}{log}");
    assert!(said.contains("after 2 attempt(s)"), "{said}");
    assert!(log.contains("outcome=\"server\"") && log.contains("status=500"), "{log}");
    for stage in ["breaker", "gate", "first token"] {
        assert!(log.contains(stage), "`{stage}` is not in\n{log}");
    }
}

#[tokio::test]
async fn a_failure_is_told_and_ends_the_command_as_failed() {
    let provider = FakeProvider::start(Script::default()).await.unwrap();
    let (is_good, _, log) = trial(&provider, "instant", "x [[fake: status=401]]").await;
    assert!(!is_good && log.contains("refused the gateway's key"), "{log}");
    let (is_good, _, log) = trial(&provider, "nothing", "x").await;
    assert!(!is_good && log.contains("neither a chain") && log.contains("slow-3s"), "{log}");
    let (is_good, _, log) = trial(&provider, "nobody/m", "x").await;
    assert!(!is_good && log.contains("[providers.nobody]"), "{log}");
}
