//! The same answers, failures and round trips in every dialect.

use std::time::Duration;

use penstock_gateway::{CallScope, ChatMessage, Exit, FinishReason, ModelChunk, ModelRequest, Outcome, Said, ToolCall};
use penstock_loadtest::fake::expected_text;
use serde_json::Value;

use crate::house::{CHAINS, House, house, house_with, read, request_of, scope, text_and_rest};

#[tokio::test]
async fn text_reasoning_and_usage_mean_the_same_in_every_dialect() {
    let house = house().await;
    for chain in CHAINS {
        let (chunks, failure) = house.ask_chain(chain, "chunks=3,reasoning=2,cached=2,gap_ms=2").await;
        assert!(failure.is_none(), "{chain}: {failure:?}");
        let mut said = Said::default();
        chunks.iter().for_each(|chunk| said.add(chunk.clone()));
        assert_eq!(said.content.unwrap().text(), expected_text(1, "hello", 3), "{chain}");
        assert_eq!(said.reasoning[0].text, "thought-1 thought-2 ", "{chain}");
        assert_eq!(said.reasoning.len(), 1, "{chain}");
        let usage = chunks.iter().find_map(|chunk| match chunk {
            ModelChunk::Usage(usage) => Some(usage),
            _ => None,
        });
        let usage = usage.unwrap_or_else(|| panic!("{chain}: {chunks:?}"));
        let counts = (usage.output_tokens, usage.reasoning_tokens, usage.cached_input_tokens);
        assert_eq!(counts, (Some(5), Some(2), Some(2)), "{chain}");
        assert!(usage.input_tokens > Some(2), "{chain}: what a cache gave is part of the input: {usage:?}");
        assert_eq!(usage.total_tokens, usage.input_tokens.map(|input| input + 5), "{chain}");
        assert_eq!(chunks.last(), Some(&ModelChunk::Finish { reason: FinishReason::Stop }), "{chain}");
    }
}

#[tokio::test]
async fn tool_calls_of_every_shape_are_the_same_in_every_dialect_and_come_in_pieces_too() {
    let house = house().await;
    for chain in CHAINS {
        for shape in
            ["indexed", "interleaved", "no_id", "index_0", "no_index", "object", "indexed,json=1", "indexed,gap_ms=2"]
        {
            let (chunks, failure) = house.ask_chain(chain, &format!("tools={shape}")).await;
            assert!(failure.is_none(), "{chain}, {shape}: {failure:?}");
            let (mut grown, mut whole) = (Vec::<ToolCall>::new(), Vec::new());
            for chunk in &chunks {
                match chunk {
                    ModelChunk::ToolCallStart { index, id, name } => {
                        assert_eq!(*index as usize, grown.len(), "{chain}, {shape}");
                        grown.push(ToolCall { id: id.clone(), name: name.clone(), ..ToolCall::default() });
                    }
                    ModelChunk::ToolCallArguments { index, delta } => grown[*index as usize].arguments.push_str(delta),
                    ModelChunk::ToolCall(call) => whole.push(ToolCall { marks: Default::default(), ..call.clone() }),
                    _ => {}
                }
            }
            assert_eq!(grown, whole, "{chain}, {shape}");
            let seen: Vec<_> = whole.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            let expected = [("calculator", r#"{"expression":"6*7"}"#), ("now", r#"{"zone":"UTC"}"#)];
            assert_eq!(seen, expected, "{chain}, {shape}");
            assert_eq!(
                chunks.last(),
                Some(&ModelChunk::Finish { reason: FinishReason::ToolCalls }),
                "{chain}, {shape}"
            );
        }
    }
}

#[tokio::test]
async fn finish_reasons_are_translated_in_every_dialect() {
    let house = house().await;
    for chain in CHAINS {
        for (finish, reason) in [
            ("length", FinishReason::Length),
            ("content_filter", FinishReason::ContentFilter),
            ("pause_turn", FinishReason::Other("pause_turn".into())),
        ] {
            let (chunks, failure) = house.ask_chain(chain, &format!("finish={finish}")).await;
            assert!(failure.is_none(), "{chain}: {failure:?}");
            assert_eq!(chunks.last(), Some(&ModelChunk::Finish { reason }), "{chain}");
        }
    }
}

#[tokio::test]
async fn failures_are_judged_the_same_in_every_dialect() {
    for chain in CHAINS {
        for (behaviour, outcome, attempts) in [
            ("status=500", Outcome::Server, 2),
            ("status=529", Outcome::Server, 2),
            ("status=429,retry_after_ms=10", Outcome::RateLimited, 2),
            ("status=401", Outcome::Denied, 1),
            ("status=404", Outcome::Denied, 1),
            ("status=402", Outcome::PlanExhausted, 1),
            ("status=400", Outcome::Refused, 1),
            ("error=0,status=529", Outcome::Server, 2),
            ("error=0,status=429", Outcome::RateLimited, 1),
            ("error=2", Outcome::Broken, 1),
            ("cut=0", Outcome::Server, 2),
            ("eof=0", Outcome::Server, 2),
            ("cut=2", Outcome::Broken, 1),
            ("eof=2", Outcome::Broken, 1),
            ("garbage=0", Outcome::Undecodable, 2),
            ("garbage=2", Outcome::Broken, 1),
            ("chunks=0", Outcome::Empty, 2),
        ] {
            // A rate limit inside a stream has no hint and would wait for the gate.
            let house = house_with(|settings| {
                if behaviour == "error=0,status=429" {
                    settings.retry.attempts = 1;
                }
            })
            .await;
            let (chunks, failure) = house.ask_chain(chain, behaviour).await;
            let failure = failure.unwrap_or_else(|| panic!("{chain}, {behaviour}: taken for an answer: {chunks:?}"));
            assert_eq!((failure.outcome, failure.attempts), (outcome, attempts), "{chain}, {behaviour}: {failure:?}");
            let text = if outcome == Outcome::Broken { "[1 messages] hello word-1" } else { "" };
            assert_eq!(text_and_rest(chunks).0, text, "{chain}, {behaviour}");
        }
    }
}

#[tokio::test]
async fn silence_behind_the_head_and_empty_events_are_cut_in_every_dialect() {
    for chain in CHAINS {
        for behaviour in ["stall=head", "stall=0", "only=comments,gap_ms=20", "only=roles,gap_ms=20"] {
            let house = house_with(|settings| {
                settings.timers.first_token = Duration::from_millis(300);
                settings.retry.attempts = 1;
            })
            .await;
            let (_, failure) = house.ask_chain(chain, behaviour).await;
            assert_eq!(failure.unwrap().outcome, Outcome::FirstToken, "{chain}, {behaviour}");
            house.closed_by_caller(1).await;
        }
    }
}

/// One turn with tools: what the model said, and the conversation after the tools have answered.
async fn with_tools(house: &House, chain: &str, scope: &CallScope) -> ModelRequest {
    let request = request_of(chain, "reasoning=2,tools=indexed then instant");
    let stream = house.gateway.stream(&request, scope).await.unwrap();
    let mut said = Said::by(stream.exit());
    let (chunks, failure) = read(stream).await;
    assert!(failure.is_none(), "{chain}: {failure:?}");
    chunks.into_iter().for_each(|chunk| said.add(chunk));
    let results: Vec<_> = said.tool_calls.iter().map(|call| ChatMessage::tool(&call.id, "42")).collect();
    let messages = request.messages.iter().cloned().chain([ChatMessage::Assistant(said)]).chain(results);
    ModelRequest { messages: messages.collect(), ..request }
}

fn last_body(house: &House) -> Value {
    serde_json::from_str(house.provider.calls(1)[0].body.get()).unwrap()
}

#[tokio::test]
async fn reasoning_and_signatures_come_back_to_the_exit_that_made_them() {
    for chain in CHAINS {
        let house = house().await;
        let scope = scope();
        let request = with_tools(&house, chain, &scope).await;
        // The fake provider refuses a turn whose signatures did not come back.
        let (chunks, failure) = read(house.gateway.stream(&request, &scope).await.unwrap()).await;
        assert!(failure.is_none(), "{chain}: {failure:?}");
        assert!(!text_and_rest(chunks).0.is_empty());
        let body = last_body(&house);
        let (place, value) = match chain {
            "chain" => ("/messages/1/reasoning_content", "thought-1 thought-2 "),
            "anthropic" => ("/messages/1/content/0/thinking", "thought-1 thought-2 "),
            _ => ("/contents/1/parts/0/thoughtSignature", "ZmFrZQ=="),
        };
        assert_eq!(body.pointer(place).and_then(Value::as_str), Some(value), "{body}");
    }
}

#[tokio::test]
async fn reasoning_and_signatures_of_one_exit_never_reach_another() {
    for made_by in CHAINS {
        for chain in CHAINS {
            if chain == made_by {
                continue;
            }
            let house = house().await;
            let scope = scope();
            let request = ModelRequest { chain: chain.into(), ..with_tools(&house, made_by, &scope).await };
            let (_, failure) = read(house.gateway.stream(&request, &scope).await.unwrap()).await;
            assert!(failure.is_none(), "{made_by} → {chain}: {failure:?}");
            let body = last_body(&house).to_string();
            assert!(
                !body.contains("thought-1") && !body.contains("fake-signature") && !body.contains("ZmFrZQ=="),
                "{body}"
            );
            assert!(body.contains("calculator"), "the call itself goes along: {body}");
        }
    }
}

#[tokio::test]
async fn each_dialect_carries_its_own_key_and_path() {
    let house = house().await;
    for chain in CHAINS {
        assert!(house.ask_chain(chain, "instant").await.1.is_none(), "{chain}");
    }
    let stats = house.stats();
    assert_eq!(stats.calls, 3);
    assert_eq!(stats.by_model.get("m"), Some(&3), "in Google's dialect the model stands in the path");
    let exit = Exit { provider: "gemini".into(), model: "m".into() };
    let stream = house.gateway.stream(&request_of("gemini", "instant"), &scope()).await.unwrap();
    assert_eq!(stream.exit(), exit);
}
