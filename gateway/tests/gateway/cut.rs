//! Law 7: a stream that was cut, wherever it was cut, is never a whole answer.

use futures_util::StreamExt;
use futures_util::stream;
use penstock_gateway::{ModelChunk, Outcome};

use crate::house::{house_with, text_and_rest};

const ANSWER: &str = "chunks=3,reasoning=1,usage=last";

/// The body that the fake provider sends, as bytes.
async fn recorded(base_url: &str, framing: &str) -> String {
    penstock_gateway::install_tls_provider();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let body = concat!(
        r#"{"model":"m","messages":[{"role":"user","content":"hello"}],"#,
        r#""stream":true,"stream_options":{"include_usage":true}}"#
    );
    let request = client.post(format!("{base_url}/chat/completions")).body(body);
    let response = request.header("x-fake-behaviour", format!("{ANSWER},framing={framing}")).send().await.unwrap();
    response.text().await.unwrap()
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_is_never_a_success() {
    let house = house_with(|settings| settings.retry.attempts = 1).await;
    for framing in ["lf", "crlf", "cr"] {
        // Ids of calls have several digits at most; the recorded body is at least as long as the shortest answer.
        let whole = recorded(&house.provider.base_url(), framing).await;
        let end = whole.find("[DONE]").unwrap();
        let outcomes = stream::iter(0..end)
            .map(|at| {
                let house = &house;
                async move { (at, house.ask(&format!("{ANSWER},framing={framing},cut_bytes={at}")).await) }
            })
            .buffer_unordered(32)
            .collect::<Vec<_>>()
            .await;
        assert_eq!(outcomes.len(), end);
        for (at, (chunks, failure)) in outcomes {
            let failure =
                failure.unwrap_or_else(|| panic!("{framing}: cut at byte {at}, taken for an answer: {chunks:?}"));
            assert!(
                matches!(failure.outcome, Outcome::Server | Outcome::Broken),
                "{framing}: cut at byte {at}: {failure:?}"
            );
            let (text, rest) = text_and_rest(chunks);
            assert!("[1 messages] hello word-1 word-2".starts_with(&text), "{text}");
            assert!(!rest.iter().any(|chunk| matches!(chunk, ModelChunk::Finish { .. })), "{framing}: {at}");
        }
    }
    assert_eq!(house.counted("clean_end"), 0);
}
