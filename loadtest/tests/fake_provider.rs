//! The fake provider itself, as its callers see it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use penstock_loadtest::fake::{FakeProvider, Script, expected_text};
use reqwest::{Client, Response};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

fn client() -> Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder().no_proxy().build().unwrap()
}

async fn provider() -> FakeProvider {
    FakeProvider::start(Script::default()).await.unwrap()
}

fn body(model: &str, text: &str, is_stream: bool) -> String {
    let mut body = json!({"model": model, "messages": [{"role": "user", "content": text}], "stream": is_stream});
    if is_stream {
        body["stream_options"] = json!({"include_usage": true});
    }
    body.to_string()
}

async fn post(provider: &FakeProvider, body: String, behaviour: &str) -> Response {
    let url = format!("{}/chat/completions", provider.base_url());
    client().post(url).header("x-fake-behaviour", behaviour).body(body).send().await.unwrap()
}

async fn json(response: Response) -> Value {
    serde_json::from_str(&response.text().await.unwrap()).unwrap()
}

async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_says_the_same_as_a_stream_and_counts_it() {
    let provider = provider().await;
    let whole = json(post(&provider, body("m", "hello", false), "chunks=3").await).await;
    let text = expected_text(1, "hello", 3);
    assert_eq!(whole["choices"][0]["message"]["content"], text);
    assert_eq!(whole["usage"]["completion_tokens"], 3);
    let stream = post(&provider, body("m", "hello", true), "chunks=3").await.text().await.unwrap();
    let said: String = stream
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .filter_map(|frame| Some(frame["choices"].get(0)?["delta"]["content"].as_str()?.to_owned()))
        .collect();
    assert_eq!(said, text);
    assert!(stream.ends_with("data: [DONE]\n\n"), "{stream}");
    assert!(stream.contains(r#""completion_tokens":3"#), "{stream}");
}

#[tokio::test]
async fn usage_comes_only_when_it_was_asked_for() {
    let provider = provider().await;
    let silent = json!({"model": "m", "messages": [], "stream": true}).to_string();
    assert!(!post(&provider, silent, "").await.text().await.unwrap().contains("usage"));
    let useless = json!({"model": "m", "messages": [], "stream_options": {"include_usage": true}}).to_string();
    assert_eq!(post(&provider, useless, "").await.status(), 400);
}

#[tokio::test]
async fn a_behaviour_that_is_none_is_answered_400_with_its_item() {
    let provider = provider().await;
    for (model, text, header) in
        [("m,chunk=1", "", ""), ("m", "[[fake: speed=9]]", ""), ("m", "", "instantly"), ("m", "", "status=999")]
    {
        let response = post(&provider, body(model, text, true), header).await;
        assert_eq!(response.status(), 400, "{model} {text} {header}");
        assert!(response.text().await.unwrap().contains("is not a preset"));
    }
    assert_eq!((provider.stats().calls, provider.stats().in_flight), (4, 0));
}

#[tokio::test]
async fn a_script_decides_by_order_of_calls_until_reset() {
    let provider = provider().await;
    let post_to = |path: &str, body: &'static str| {
        client().post(format!("http://{}/fake/{path}", provider.address())).body(body).send()
    };
    let script = r#"{"rule":[{"model":"m*","behaviours":["status=503,retry_after=2","instant"]}]}"#;
    assert_eq!(post_to("script", script).await.unwrap().status(), 204);
    let first = post(&provider, body("m-1", "x", true), "").await;
    assert_eq!((first.status().as_u16(), first.headers()["retry-after"].to_str().unwrap()), (503, "2"));
    assert_eq!(post(&provider, body("m-1", "x", true), "").await.status(), 200);
    assert_eq!(post_to("script", r#"{"rule":[{"behaviours":[]}]}"#).await.unwrap().status(), 400);
    assert_eq!(provider.stats().by_model, [("m-1".to_owned(), 2)].into());
    assert_eq!(post_to("reset", "").await.unwrap().status(), 204);
    assert_eq!((provider.stats().calls, provider.calls(10).len()), (0, 0));
    assert_eq!(post(&provider, body("m-1", "x", true), "").await.status(), 200, "the script is gone");
}

#[tokio::test]
async fn received_bodies_are_kept_byte_for_byte_with_their_tags() {
    let provider = provider().await;
    let odd = r#"{"model":"m", "messages":[],  "x":1.10}"#;
    let url = format!("{}/chat/completions", provider.base_url());
    client().post(url).header("x-request-tag", "t-1").body(odd).send().await.unwrap();
    let calls = client().get(format!("http://{}/fake/calls?last=1", provider.address())).send().await.unwrap();
    assert!(calls.text().await.unwrap().contains(r#""tag":"t-1","#));
    assert_eq!(provider.calls(1)[0].body.get(), odd);
}

#[tokio::test]
async fn a_callers_close_is_seen_wherever_the_call_stands() {
    let provider = provider().await;
    let behaviours = [
        ("stall=byte", true),
        ("first_byte_ms=60000", true),
        ("stall=head", true),
        ("first_ms=60000", true),
        ("only=comments", true),
        ("chunks=1000,gap_ms=60000", true),
        ("chunks=1000,gap_ms=1", true),
        ("stall=2", true),
        ("total_ms=60000", false),
    ];
    for (behaviour, is_stream) in behaviours {
        let mut socket = TcpStream::connect(provider.address()).unwrap();
        let body = body("m", "hello", is_stream);
        write!(
            socket,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-fake-behaviour: {behaviour}\r\n\
             x-request-tag: {behaviour}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        eventually("the call arrives", || provider.stats().in_flight == 1).await;
        drop(socket);
        eventually("the close is seen", || provider.stats().in_flight == 0).await;
        assert_eq!(provider.stats().closed.back().unwrap().tag.as_deref(), Some(behaviour));
    }
    let stats = provider.stats();
    assert_eq!((stats.closed_by_caller, stats.completed), (9, 0));
    assert!(stats.closed.iter().is_sorted_by_key(|closed| (closed.at_ms, closed.call)));
}

#[tokio::test]
async fn a_cut_breaks_the_connection_and_an_eof_only_ends_the_body() {
    let provider = provider().await;
    assert!(post(&provider, body("m", "hello", true), "cut=2").await.text().await.is_err());
    let ended = post(&provider, body("m", "hello", true), "eof=2").await.text().await.unwrap();
    assert!(ended.contains("word-1") && !ended.contains("[DONE]") && !ended.contains("\"stop\""), "{ended}");
    eventually("both count as completed", || provider.stats().completed == 2).await;
    assert_eq!(provider.stats().closed_by_caller, 0);
}

#[tokio::test]
async fn a_total_time_spreads_the_chunks_over_it() {
    let provider = provider().await;
    let began = Instant::now();
    let mut response = post(&provider, body("m", "hello", true), "chunks=10,total_ms=500").await;
    let first = response.chunk().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("hello"), "the first token comes at once");
    let mut reads = 1;
    while response.chunk().await.unwrap().is_some() {
        reads += 1;
    }
    assert!(began.elapsed() >= Duration::from_millis(500));
    assert!(reads >= 10, "each chunk leaves by itself: {reads} reads");
}

#[test]
fn the_process_prints_where_it_listens_and_ends_when_told() {
    let script = std::env::temp_dir().join(format!("penstock-script-{}.toml", std::process::id()));
    std::fs::write(&script, "[[rule]]\nbehaviours = [\"status=418\"]\n").unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_penstock-fake-provider"))
        .arg("--script")
        .arg(&script)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let printed: Value = serde_json::from_str(&line).unwrap();
    let base_url = printed["base_url"].as_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let models = json(client().get(format!("{base_url}/models")).send().await.unwrap()).await;
        assert_eq!(models["data"][0]["id"], "instant");
        let url = format!("{base_url}/chat/completions");
        assert_eq!(client().post(url).body(body("m", "x", true)).send().await.unwrap().status(), 418);
    });
    assert!(Command::new("kill").arg(process.id().to_string()).status().unwrap().success());
    assert!(process.wait().unwrap().success());
    std::fs::remove_file(script).unwrap();
    assert!(printed["listening"].as_str().unwrap().starts_with("127.0.0.1:"), "{printed}");
}
