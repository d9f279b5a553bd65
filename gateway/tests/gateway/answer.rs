//! Whole answers, in every shape that vendors give them.

use penstock_gateway::{ChatMessage, FinishReason, ModelChunk, ModelRequest, Reasoning, Said};
use penstock_loadtest::fake::expected_text;
use penstock_protocol::TokenUsage;
use serde_json::{Value, json};

use crate::house::{CHAINS, House, house, read, request, scope, text_and_rest};

const FINISH: ModelChunk = ModelChunk::Finish { reason: FinishReason::Stop };

/// Asks, expects success, and gives the text, the usage and the finish.
async fn whole(house: &House, behaviour: &str) -> (String, Option<TokenUsage>, FinishReason) {
    let (chunks, failure) = house.ask(behaviour).await;
    assert!(failure.is_none(), "{behaviour}: {failure:?}");
    let (text, mut rest) = text_and_rest(chunks);
    let Some(ModelChunk::Finish { reason }) = rest.pop() else { panic!("{behaviour}: no finish") };
    let usage = rest.pop().map(|chunk| match chunk {
        ModelChunk::Usage(usage) => usage,
        other => panic!("{behaviour}: {other:?}"),
    });
    assert!(rest.is_empty(), "{behaviour}: {rest:?}");
    (text, usage, reason)
}

#[tokio::test]
async fn an_answer_comes_whole_with_usage_and_the_name_of_who_served() {
    let house = house().await;
    let stream = house.open("chunks=3,cached=2").await.unwrap();
    assert_eq!((stream.provider(), stream.model()), ("fake", "m"));
    let (chunks, failure) = read(stream).await;
    assert!(failure.is_none());
    let (text, rest) = text_and_rest(chunks);
    assert_eq!(text, expected_text(1, "hello", 3));
    let ModelChunk::Usage(usage) = &rest[0] else { panic!("{rest:?}") };
    assert_eq!((usage.provider.as_deref(), usage.model.as_deref()), (Some("fake"), Some("m")));
    assert_eq!((usage.output_tokens, usage.cached_input_tokens), (Some(3), Some(2)));
    assert_eq!(usage.total_tokens, Some(usage.input_tokens.unwrap() + 3));
    assert_eq!(rest[1..], [FINISH]);
    assert_eq!(house.counted("clean_end"), 1);
    assert!(house.metrics().contains(r#"penstock_model_first_token_seconds_count{provider="fake",model="m"} 1"#));
}

#[tokio::test]
async fn every_framing_gives_the_same_answer() {
    let house = house().await;
    let plain = whole(&house, "chunks=3").await;
    for (chain, framing) in CHAINS.into_iter().flat_map(|chain| FRAMINGS.map(|framing| (chain, framing))) {
        let (chunks, failure) = house.ask_chain(chain, &format!("chunks=3,{framing}")).await;
        assert!(failure.is_none(), "{chain}, {framing}: {failure:?}");
        let (text, rest) = text_and_rest(chunks);
        assert_eq!(text, plain.0, "{chain}, {framing}");
        assert!(
            matches!(&rest[0], ModelChunk::Usage(usage) if usage.output_tokens == Some(3)),
            "{chain}, {framing}: {rest:?}"
        );
        assert_eq!(rest[1..], [FINISH], "{chain}, {framing}");
    }
}

const FRAMINGS: [&str; 11] = [
    "framing=crlf",
    "framing=cr",
    "space=0",
    "bom=1",
    "blank=0",
    "done=0",
    "framing=crlf,gap_ms=1",
    "framing=crlf,bom=1,space=0,blank=0,done=0",
    "open=1",
    "keepalive_ms=1,first_ms=20",
    "json=1",
];

#[tokio::test]
async fn usage_is_found_wherever_it_stands_and_is_unknown_where_it_is_not() {
    let house = house().await;
    for place in ["last", "finish", "choice", "each"] {
        let (_, usage, _) = whole(&house, &format!("chunks=3,cached=2,usage={place}")).await;
        let usage = usage.unwrap_or_else(|| panic!("{place}"));
        assert_eq!((usage.output_tokens, usage.cached_input_tokens), (Some(3), Some(2)), "{place}");
    }
    let (_, usage, finish) = whole(&house, "chunks=3,usage=none").await;
    assert_eq!((usage, finish), (None, FinishReason::Stop));
}

#[tokio::test]
async fn the_finish_reason_is_kept() {
    let house = house().await;
    for (finish, reason) in [
        ("length", FinishReason::Length),
        ("content_filter", FinishReason::ContentFilter),
        ("none", FinishReason::Stop),
        ("eos", FinishReason::Other("eos".into())),
    ] {
        assert_eq!(whole(&house, &format!("finish={finish}")).await.2, reason);
    }
}

#[tokio::test]
async fn reasoning_comes_before_the_text_and_is_counted() {
    let house = house().await;
    let (chunks, failure) = house.ask("reasoning=2,chunks=2,gap_ms=5").await;
    assert!(failure.is_none());
    let reasoning: String = chunks
        .iter()
        .filter_map(|chunk| match chunk {
            ModelChunk::Reasoning(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(reasoning, "thought-1 thought-2 ");
    assert!(matches!(chunks[0], ModelChunk::Reasoning(_)), "{chunks:?}");
    let (text, rest) = text_and_rest(chunks);
    assert_eq!(text, expected_text(1, "hello", 2));
    let usage = rest.iter().find_map(|chunk| match chunk {
        ModelChunk::Usage(usage) => Some(usage),
        _ => None,
    });
    assert_eq!(usage.unwrap().reasoning_tokens, Some(2));
}

#[tokio::test]
async fn tool_calls_of_every_shape_are_the_same_calls() {
    let house = house().await;
    for shape in ["indexed", "interleaved", "no_id", "index_0", "no_index", "object", "indexed,json=1"] {
        let (chunks, failure) = house.ask(&format!("tools={shape}")).await;
        assert!(failure.is_none(), "{shape}: {failure:?}");
        let calls: Vec<_> = chunks
            .iter()
            .filter_map(|chunk| match chunk {
                ModelChunk::ToolCall(call) => Some((call.name.as_str(), call.arguments.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(calls, [("calculator", r#"{"expression":"6*7"}"#), ("now", r#"{"zone":"UTC"}"#)], "{shape}");
        assert_eq!(chunks.last(), Some(&ModelChunk::Finish { reason: FinishReason::ToolCalls }), "{shape}");
    }
    let (chunks, failure) = house.ask("tools=truncated").await;
    assert!(failure.is_none());
    assert_eq!(chunks.last(), Some(&ModelChunk::Finish { reason: FinishReason::Length }));
}

#[tokio::test]
async fn the_request_carries_key_id_and_every_field_and_asks_for_usage() {
    let house = house().await;
    let scope = scope();
    let fields = r#"{"temperature":0.10,"x_unknown":{"a":[1,  2]},"stream":false,"stream_options":{"x_more":1}}"#;
    let request = ModelRequest {
        messages: vec![
            ChatMessage::system("be brief"),
            ChatMessage::Assistant(Said {
                content: Some("a".into()),
                reasoning: vec![Reasoning { text: "hm".into(), ..Reasoning::default() }],
                ..Said::default()
            }),
            ChatMessage::user("hello"),
        ],
        fields: serde_json::from_str(fields).unwrap(),
        ..request("")
    };
    let (chunks, failure) = read(house.gateway.stream(&request, &scope).await.unwrap()).await;
    assert!(failure.is_none());
    assert_eq!(text_and_rest(chunks).0, expected_text(3, "hello", 4), "the provider saw the whole history");
    let call = house.provider.calls(1).pop().unwrap();
    assert_eq!(call.tag, Some(scope.task.to_string()));
    assert!(call.body.get().contains(r#""temperature":0.10,"x_unknown":{"a":[1,  2]}"#), "{}", call.body);
    let body: Value = serde_json::from_str(call.body.get()).unwrap();
    assert_eq!(body["stream"], true);
    assert_eq!(body["stream_options"], json!({"include_usage": true, "x_more": 1}));
    assert_eq!(body["messages"][1]["reasoning_content"], "hm");
}

#[tokio::test]
async fn calls_one_after_another_share_a_connection() {
    let house = house().await;
    for _ in 0..10 {
        whole(&house, "instant").await;
    }
    assert_eq!(house.stats().connections, 1);
    whole(&house, "open=1").await;
    whole(&house, "instant").await;
    assert_eq!(house.stats().connections, 2, "a connection that is left open serves no other call");
}
