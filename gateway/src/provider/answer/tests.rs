use proptest::prelude::*;

use super::*;
use crate::{FinishReason, Reasoning, ToolCall};

const BOUNDS: AnswerBounds = AnswerBounds { event_bytes_max: 1 << 20, body_bytes_max: 32 << 20 };

/// Reads a whole event stream: its chunks, and the outcome of its trouble.
fn read(stream: &str) -> (Vec<ModelChunk>, Option<Outcome>) {
    read_as("text/event-stream", &[stream.as_bytes()])
}

fn read_as(content_type: &str, reads: &[&[u8]]) -> (Vec<ModelChunk>, Option<Outcome>) {
    let mut answer = Answer::new(Dialect::Openai, content_type, false, BOUNDS);
    let mut chunks = Vec::new();
    for bytes in reads {
        answer.push(bytes);
        chunks.extend(std::iter::from_fn(|| answer.next_chunk()));
    }
    answer.end();
    chunks.extend(std::iter::from_fn(|| answer.next_chunk()));
    (chunks, answer.take_trouble().map(|trouble| trouble.outcome))
}

fn text(text: &str) -> ModelChunk {
    ModelChunk::Text(text.into())
}

fn finish(reason: FinishReason) -> ModelChunk {
    ModelChunk::Finish { reason }
}

/// A recorded stream: role, text with a character of four bytes, finish, usage with cached tokens, end.
const RECORDED: &str = concat!(
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n",
    ": keep-alive\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi \u{1F600}\"}}],\"usage\":null}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" there\"}}],\"usage\":null}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n",
    "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,",
    "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
    "data: [DONE]\n\n",
);

fn recorded_usage() -> ModelChunk {
    ModelChunk::Usage(TokenUsage {
        input_tokens: Some(9),
        output_tokens: Some(3),
        total_tokens: Some(12),
        cached_input_tokens: Some(4),
        ..TokenUsage::default()
    })
}

#[test]
fn a_recorded_stream_is_read_the_same_in_every_framing_and_split() {
    for ending in ["\n", "\r\n", "\r"] {
        for space in ["data: ", "data:"] {
            let stream = RECORDED.replace("data: ", space).replace('\n', ending);
            let bytes = stream.as_bytes();
            for cut in 0..=bytes.len() {
                let (chunks, trouble) = read_as("text/event-stream", &[&bytes[..cut], &bytes[cut..]]);
                assert_eq!(trouble, None);
                let mut whole = String::new();
                let mut rest = Vec::new();
                for chunk in chunks {
                    match chunk {
                        ModelChunk::Text(piece) => whole.push_str(&piece),
                        other => rest.push(other),
                    }
                }
                assert_eq!(whole, "Hi \u{1F600} there", "cut at {cut}, {ending:?}");
                assert_eq!(rest, [recorded_usage(), finish(FinishReason::Stop)], "cut at {cut}, {ending:?}");
            }
        }
    }
}

#[test]
fn a_stream_cut_anywhere_before_its_finish_is_never_whole() {
    let finish_at = RECORDED.find("\"stop\"}]").unwrap();
    let bytes = RECORDED.as_bytes();
    for cut in 0..finish_at {
        let mut answer = Answer::new(Dialect::Openai, "text/event-stream", false, BOUNDS);
        answer.push(&bytes[..cut]);
        answer.end();
        assert_eq!(*answer.progress(), Progress::Failed, "a clean end at byte {cut}");
    }
    // A broken connection is never a whole answer, be it after the finish reason.
    for cut in 0..RECORDED.find("[DONE]").unwrap() {
        let mut answer = Answer::new(Dialect::Openai, "text/event-stream", false, BOUNDS);
        answer.push(&bytes[..cut]);
        answer.break_off("reset".into());
        assert_eq!(*answer.progress(), Progress::Failed, "a break at byte {cut}");
        assert!(std::iter::from_fn(|| answer.next_chunk()).all(|chunk| !matches!(chunk, ModelChunk::Finish { .. })));
    }
}

#[test]
fn text_before_trouble_is_given_out_first() {
    let (chunks, trouble) = read("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {garbage\n\n");
    assert_eq!((chunks, trouble), (vec![text("a")], Some(Outcome::Undecodable)));
}

#[test]
fn an_error_followed_by_done_stays_an_error() {
    for error in [
        "data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\"}}",
        "event: error\ndata: {\"message\":\"x\"}",
        "data: {\"object\":\"error\",\"message\":\"x\"}",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"error\"}]}",
    ] {
        let stream =
            format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}]}}\n\n{error}\n\ndata: [DONE]\n\n");
        assert_eq!(read(&stream), (vec![text("a")], Some(Outcome::Server)), "{error}");
    }
}

#[test]
fn done_without_a_finish_reason_ends_the_answer_unless_a_tool_call_is_cut() {
    let done = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
    assert_eq!(read(done), (vec![text("a"), finish(FinishReason::Stop)], None));
    let cut = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\
               \"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\"}}]}}]}\n\ndata: [DONE]\n\n";
    let (chunks, trouble) = read(cut);
    assert_eq!(trouble, Some(Outcome::Server));
    assert!(!chunks.iter().any(|chunk| matches!(chunk, ModelChunk::ToolCall(_))), "{chunks:?}");
}

#[test]
fn a_finish_reason_and_a_clean_end_need_no_done() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}";
    assert_eq!(read(stream), (vec![text("a"), finish(FinishReason::Stop)], None));
}

#[test]
fn an_answer_with_nothing_in_it_is_empty_unless_length_or_a_filter_took_all() {
    let with = |reason: &str| {
        read(&format!("data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\ndata: [DONE]\n\n"))
    };
    assert_eq!(with("stop"), (vec![], Some(Outcome::Empty)));
    assert_eq!(with("length"), (vec![finish(FinishReason::Length)], None));
    assert_eq!(with("content_filter"), (vec![finish(FinishReason::ContentFilter)], None));
    assert_eq!(read("data: [DONE]\n\n"), (vec![], Some(Outcome::Empty)));
    assert_eq!(read(""), (vec![], Some(Outcome::Server)));
}

#[test]
fn the_last_usage_wins_wherever_it_stands() {
    let usage = |tokens: u64| format!("{{\"prompt_tokens\":1,\"completion_tokens\":{tokens}}}");
    for stream in [
        format!(
            "data: {{\"choices\":[],\"usage\":{}}}\n\ndata: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}},\"finish_reason\":\"stop\"}}],\"usage\":{}}}\n\n",
            usage(1),
            usage(2)
        ),
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}},\"finish_reason\":\"stop\",\"usage\":{}}}],\"usage\":null}}\n\n",
            usage(2)
        ),
    ] {
        let (chunks, trouble) = read(&stream);
        assert_eq!(trouble, None);
        let ModelChunk::Usage(usage) = &chunks[1] else { panic!("{chunks:?}") };
        assert_eq!(usage.output_tokens, Some(2));
    }
}

#[test]
fn reasoning_of_both_names_counts_as_the_first_token() {
    for name in ["reasoning_content", "reasoning"] {
        let mut answer = Answer::new(Dialect::Openai, "text/event-stream", false, BOUNDS);
        answer.push(b"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n: ping\n\n");
        assert_eq!(*answer.progress(), Progress::Waiting);
        answer.push(format!("data: {{\"choices\":[{{\"delta\":{{\"{name}\":\"hm\"}}}}]}}\n\n").as_bytes());
        assert_eq!(*answer.progress(), Progress::Begun);
        assert_eq!(answer.next_chunk(), Some(ModelChunk::Reasoning("hm".into())));
        answer.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n");
        assert_eq!(answer.next_chunk(), Some(text("a")));
        let block = Reasoning { text: "hm".into(), ..Reasoning::default() };
        assert_eq!(answer.next_chunk(), Some(ModelChunk::ReasoningBlock(block)), "whole, to be sent back");
    }
}

#[test]
fn tool_calls_come_whole_before_the_end_and_stop_becomes_tool_calls() {
    let stream = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\
                  \"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]}}]}\n\n\
                  data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let call = ToolCall { id: "x".into(), name: "f".into(), arguments: "{\"a\":1}".into(), ..ToolCall::default() };
    let start = ModelChunk::ToolCallStart { index: 0, id: "x".into(), name: "f".into() };
    let arguments = ModelChunk::ToolCallArguments { index: 0, delta: "{\"a\":1}".into() };
    assert_eq!(
        read(stream),
        (vec![start, arguments, ModelChunk::ToolCall(call), finish(FinishReason::ToolCalls)], None)
    );
}

#[test]
fn truncated_arguments_keep_the_reason_length() {
    let stream = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\
                  \"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\"}}]},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
    let (chunks, trouble) = read(stream);
    assert_eq!((chunks.last(), trouble), (Some(&finish(FinishReason::Length)), None));
}

#[test]
fn one_json_object_answered_to_a_stream_request_is_read() {
    let body = "\n\n{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\
                \"content\":\"a\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\
                \"prompt_tokens_details\":{\"cached_tokens\":4}}}";
    let (first, second) = body.as_bytes().split_at(20);
    let (chunks, trouble) = read_as("application/json; charset=utf-8", &[first, second]);
    assert_eq!((chunks, trouble), (vec![text("a"), recorded_usage(), finish(FinishReason::Stop)], None));
    let error = read_as("application/json", &[b"{\"error\":{\"message\":\"x\",\"type\":\"server_error\"}}"]);
    assert_eq!(error, (vec![], Some(Outcome::Server)));
    assert_eq!(read_as("application/json", &[b"{\"choices\":[{\"message\""]), (vec![], Some(Outcome::Undecodable)));
    assert_eq!(read_as("application/json", &[]), (vec![], Some(Outcome::Server)));
    assert_eq!(read_as("text/html", &[b"<html>"]), (vec![], Some(Outcome::Undecodable)));
}

#[test]
fn other_choices_are_skipped() {
    let stream = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}},{\"index\":0,\"delta\":{\"content\":\"a\"},\
                  \"finish_reason\":\"stop\"}]}\n\n";
    assert_eq!(read(stream), (vec![text("a"), finish(FinishReason::Stop)], None));
}

const DIALECTS: [Dialect; 3] = [Dialect::Openai, Dialect::Anthropic, Dialect::Gemini];

/// A recorded stream of each dialect with everything in it: reasoning, text, two calls, usage, end.
fn everything(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Openai => include_str!("../../../tests/recorded/openai.sse"),
        Dialect::Anthropic => include_str!("../../../tests/recorded/anthropic.sse"),
        Dialect::Gemini => include_str!("../../../tests/recorded/gemini.sse"),
    }
}

/// What a stream gives, with pieces that follow each other joined: that depends on the reads.
fn joined(dialect: Dialect, reads: &[&[u8]]) -> (Vec<ModelChunk>, bool) {
    let mut answer = Answer::new(dialect, "text/event-stream", false, BOUNDS);
    let mut chunks = Vec::<ModelChunk>::new();
    let mut take = |answer: &mut Answer| {
        while let Some(chunk) = answer.next_chunk() {
            match (chunks.last_mut(), chunk) {
                (Some(ModelChunk::Text(held)), ModelChunk::Text(piece))
                | (Some(ModelChunk::Reasoning(held)), ModelChunk::Reasoning(piece)) => held.push_str(&piece),
                (
                    Some(ModelChunk::ToolCallArguments { index: open, delta: held }),
                    ModelChunk::ToolCallArguments { index, delta },
                ) if *open == index => held.push_str(&delta),
                (_, chunk) => chunks.push(chunk),
            }
        }
    };
    for bytes in reads {
        answer.push(bytes);
        take(&mut answer);
    }
    answer.end();
    take(&mut answer);
    (chunks, *answer.progress() == Progress::Whole)
}

#[test]
fn a_stream_with_everything_in_it_is_read_the_same_however_it_is_cut() {
    for dialect in DIALECTS {
        let bytes = everything(dialect).as_bytes();
        let (whole, is_whole) = joined(dialect, &[bytes]);
        assert!(is_whole, "{dialect:?}: {whole:?}");
        let said = |chunk: &ModelChunk| matches!(chunk, ModelChunk::ToolCall(call) if call.name == "get_weather");
        assert_eq!(whole.iter().filter(|chunk| said(chunk)).count(), 2, "{dialect:?}: {whole:?}");
        for cut in 0..=bytes.len() {
            let (chunks, is_whole) = joined(dialect, &[&bytes[..cut], &bytes[cut..]]);
            assert!(is_whole, "{dialect:?} cut at {cut}");
            // Minted ids differ from reading to reading.
            assert_eq!(unnamed(chunks), unnamed(whole.clone()), "{dialect:?} cut at {cut}");
        }
    }
}

fn unnamed(mut chunks: Vec<ModelChunk>) -> Vec<ModelChunk> {
    for chunk in &mut chunks {
        match chunk {
            ModelChunk::ToolCallStart { id, .. } => id.clear(),
            ModelChunk::ToolCall(call) => call.id.clear(),
            _ => {}
        }
    }
    chunks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Law 7 under garbage: bytes are changed, dropped and doubled, and still an answer ends whole or failed, never between.
    #[test]
    fn a_mangled_stream_ends_whole_or_failed(
        dialect in prop::sample::select(DIALECTS.to_vec()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = everything(dialect).as_bytes().to_vec();
        for (place, byte, change) in changes {
            let place = place.index(bytes.len());
            match change {
                0 => bytes[place] = byte,
                1 => drop(bytes.remove(place)),
                _ => bytes.insert(place, byte),
            }
        }
        let cut = cut.index(bytes.len() + 1);
        let (chunks, is_whole) = joined(dialect, &[&bytes[..cut], &bytes[cut..]]);
        let has_finish = matches!(chunks.last(), Some(ModelChunk::Finish { .. }));
        prop_assert_eq!(is_whole, has_finish);
        prop_assert_eq!(unnamed(joined(dialect, &[&bytes]).0), unnamed(chunks), "cut at {}", cut);
    }

    #[test]
    fn any_bytes_are_no_answer(
        dialect in prop::sample::select(DIALECTS.to_vec()),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let (chunks, is_whole) = joined(dialect, &[&bytes]);
        // One word ends an answer of OpenAI's dialect, but an empty answer is none.
        prop_assert!(!is_whole && chunks.is_empty());
    }
}

#[test]
fn the_bounds_of_an_answer_hold_in_every_dialect() {
    for dialect in DIALECTS {
        let bounds = AnswerBounds { event_bytes_max: 1000, body_bytes_max: 5000 };
        let mut answer = Answer::new(dialect, "text/event-stream", false, bounds);
        answer.push(&[b'x'; 1001]);
        assert_eq!(answer.take_trouble().unwrap().outcome, Outcome::Undecodable);
        let mut answer = Answer::new(dialect, "text/event-stream", false, bounds);
        for _ in 0..6 {
            answer.push([b": comment\n".as_slice(); 100].concat().as_slice());
        }
        assert_eq!(answer.take_trouble().unwrap().outcome, Outcome::Undecodable);
        let mut answer = Answer::new(dialect, "application/json", false, bounds);
        answer.push(&[b' '; 5001]);
        assert_eq!(answer.take_trouble().unwrap().outcome, Outcome::Undecodable);
    }
}

#[test]
fn streams_of_the_vendors_own_types_mean_the_same() {
    for dialect in DIALECTS {
        let (chunks, _) = joined(dialect, &[everything(dialect).as_bytes()]);
        let mut said = crate::Said::default();
        chunks.iter().for_each(|chunk| said.add(chunk.clone()));
        assert_eq!(said.content.unwrap().text(), "Let me look \u{263c}.", "{dialect:?}");
        assert_eq!(said.reasoning[0].text, "Two cities, two calls.", "{dialect:?}");
        let calls: Vec<_> = said.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(
            calls,
            [("get_weather", r#"{"city":"Köln"}"#), ("get_weather", r#"{"city":"東京"}"#)],
            "{dialect:?}"
        );
        let usage = chunks.iter().find_map(|chunk| match chunk {
            ModelChunk::Usage(usage) => Some(usage),
            _ => None,
        });
        let usage = usage.unwrap_or_else(|| panic!("{dialect:?}: no usage"));
        let counts = [usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.reasoning_tokens];
        assert_eq!(counts, [Some(82), Some(17), Some(99), Some(5)], "{dialect:?}");
        assert_eq!(usage.cached_input_tokens, Some(64), "{dialect:?}");
        assert_eq!(chunks.last(), Some(&finish(FinishReason::ToolCalls)), "{dialect:?}");
        let mark = |fields: &crate::Fields, name| fields.get(name).map(|value| value.get().to_owned());
        let signature = Some("\"c2lnbmF0dXJl\"".to_owned());
        match dialect {
            Dialect::Openai => {}
            Dialect::Anthropic => {
                assert_eq!(mark(&said.reasoning[0].marks, "signature"), signature);
                assert_eq!(mark(&said.reasoning[1].marks, "data"), Some("\"aGlkZGVu\"".to_owned()));
                assert_eq!(usage.cache_write_input_tokens, Some(6));
            }
            Dialect::Gemini => assert_eq!(mark(&said.tool_calls[0].marks, "thoughtSignature"), signature),
        }
    }
}
