//! Law 7: a stream that was cut, wherever it was cut, is never a whole answer.

use futures_util::StreamExt;
use futures_util::stream;
use penstock_gateway::{ModelChunk, Outcome};

use crate::house::{CHAINS, House, house_with, request_of, scope, text_and_rest};

const ANSWER: &str = "chunks=3,reasoning=1,usage=last";

/// Length of the body that the fake provider sends to a chain, up to where it is whole.
async fn whole_bytes(house: &House, chain: &str, framing: &str) -> usize {
    let request = request_of(chain, &format!("{ANSWER},framing={framing}"));
    let stream = house.gateway.stream(&request, &scope()).await.unwrap();
    drop(stream);
    let call = house.provider.calls(1).pop().unwrap();
    let base_url = match chain {
        "gemini" => format!("{}/models/m:streamGenerateContent", house.provider.gemini_base_url()),
        "anthropic" => format!("{}/messages", house.provider.base_url()),
        _ => format!("{}/chat/completions", house.provider.base_url()),
    };
    penstock_gateway::install_tls_provider();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.post(base_url).header("anthropic-version", "2023-06-01").body(call.body.get().to_owned());
    let body = request.send().await.unwrap().text().await.unwrap();
    // Ids of calls have several digits at most; the body is at least as long as the shortest answer.
    match chain {
        "gemini" => body.len(),
        "anthropic" => body.find(r#"{"type":"message_stop"}"#).unwrap(),
        _ => body.find("[DONE]").unwrap(),
    }
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_is_never_a_success() {
    let house = house_with(|settings| {
        settings.retry.attempts = 1;
        settings.breaker.failures = 0;
    })
    .await;
    for (chain, framing) in
        [("chain", "lf"), ("chain", "crlf"), ("chain", "cr"), ("anthropic", "lf"), ("gemini", "crlf")]
    {
        assert!(CHAINS.contains(&chain));
        let end = whole_bytes(&house, chain, framing).await;
        let outcomes = stream::iter(0..end)
            .map(|at| {
                let house = &house;
                async move { (at, house.ask_chain(chain, &format!("{ANSWER},framing={framing},cut_bytes={at}")).await) }
            })
            .buffer_unordered(32)
            .collect::<Vec<_>>()
            .await;
        assert_eq!(outcomes.len(), end);
        for (at, (chunks, failure)) in outcomes {
            let failure =
                failure.unwrap_or_else(|| panic!("{chain}, {framing}: cut at {at}, taken for an answer: {chunks:?}"));
            assert!(
                matches!(failure.outcome, Outcome::Server | Outcome::Broken),
                "{chain}, {framing}: cut at byte {at}: {failure:?}"
            );
            let (text, rest) = text_and_rest(chunks);
            assert!("[1 messages] hello word-1 word-2".starts_with(&text), "{text}");
            assert!(!rest.iter().any(|chunk| matches!(chunk, ModelChunk::Finish { .. })), "{chain}, {framing}: {at}");
        }
    }
    assert_eq!(house.counted("clean_end"), 0);
}
