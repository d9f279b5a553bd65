//! The bytes of a stream's frames, and of an answer in one piece.

use super::answer::Answer;
use super::behaviour::{Behaviour, ToolShape, UsageAt};

/// Writes the frames of one answer.
#[derive(Debug)]
pub(super) struct Frames {
    /// `id`, `created` and `model` of every frame, as JSON members.
    head: String,
    /// OpenAI writes `usage: null` into every chunk once usage was asked for.
    has_usage_null: bool,
}

impl Frames {
    pub(super) fn new(number: u64, model: &str, has_usage_null: bool) -> Self {
        let model = serde_json::Value::from(model);
        Self { head: format!(r#""id":"chatcmpl-fake-{number}","created":1700000000,"model":{model}"#), has_usage_null }
    }

    /// Whether the request asked for usage.
    pub(super) fn has_usage(&self) -> bool {
        self.has_usage_null
    }

    /// A chunk with this `delta`. `extra` goes into the choice.
    pub(super) fn chunk(&self, delta: &str, finish: Option<&str>, extra: &str, usage: Option<&str>) -> String {
        let head = &self.head;
        let finish = finish.map_or_else(|| "null".to_owned(), |reason| format!(r#""{reason}""#));
        let usage = match usage {
            Some(usage) => format!(r#","usage":{usage}"#),
            None if self.has_usage_null => r#","usage":null"#.to_owned(),
            None => String::new(),
        };
        format!(
            r#"{{{head},"object":"chat.completion.chunk","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}{extra}}}]{usage}}}"#
        )
    }

    /// The chunk without choices that carries the usage.
    pub(super) fn usage(&self, usage: &str) -> String {
        let head = &self.head;
        format!(r#"{{{head},"object":"chat.completion.chunk","choices":[],"usage":{usage}}}"#)
    }

    /// The whole answer as one `chat.completion`.
    pub(super) fn whole(&self, behaviour: &Behaviour, answer: &Answer) -> String {
        let head = &self.head;
        let text: String = (0..behaviour.chunks).map(|index| answer.chunk(behaviour, index)).collect();
        let reasoning = match behaviour.reasoning {
            0 => String::new(),
            count => {
                let text: String = (0..count).map(reasoning_text).collect();
                format!(r#","reasoning_content":{}"#, serde_json::Value::from(text))
            }
        };
        let (content, calls, finish) = match behaviour.tools {
            None => (serde_json::Value::from(text).to_string(), String::new(), "stop"),
            Some(_) => {
                let calls = TOOLS.map(|(id, name, arguments)| call(None, Some(id), Some(name), Some(arguments)));
                ("null".to_owned(), format!(r#","tool_calls":[{}]"#, calls.join(",")), "tool_calls")
            }
        };
        let finish = behaviour.finish.as_deref().unwrap_or(finish);
        let usage = match behaviour.usage {
            UsageAt::None => String::new(),
            _ => format!(r#","usage":{}"#, answer.usage(behaviour, behaviour.reasoning + behaviour.chunks)),
        };
        format!(
            r#"{{{head},"object":"chat.completion","choices":[{{"index":0,"message":{{"role":"assistant","content":{content}{reasoning}{calls}}},"finish_reason":"{finish}"}}]{usage}}}"#
        )
    }
}

pub(super) fn reasoning_text(index: u32) -> String {
    format!("thought-{} ", index + 1)
}

/// The calls that `tools=…` makes: id, name, arguments.
const TOOLS: [(&str, &str, &str); 2] =
    [("call_1", "calculator", r#"{"expression":"6*7"}"#), ("call_2", "now", r#"{"zone":"UTC"}"#)];

/// The `delta`s that carry the tool calls in a shape.
pub(super) fn tool_deltas(shape: ToolShape) -> Vec<String> {
    let [(id_1, name_1, arguments_1), (id_2, name_2, arguments_2)] = TOOLS;
    let (start_1, end_1) = arguments_1.split_at(9);
    let (start_2, end_2) = arguments_2.split_at(4);
    let calls = match shape {
        ToolShape::Indexed => vec![
            call(Some(0), Some(id_1), Some(name_1), Some("")),
            call(Some(0), None, None, Some(start_1)),
            call(Some(0), None, None, Some(end_1)),
            call(Some(1), Some(id_2), Some(name_2), Some("")),
            call(Some(1), None, None, Some(arguments_2)),
        ],
        ToolShape::Interleaved => vec![
            call(Some(0), Some(id_1), Some(name_1), Some(start_1)),
            call(Some(1), Some(id_2), Some(name_2), Some(start_2)),
            call(Some(0), None, None, Some(end_1)),
            call(Some(1), None, None, Some(end_2)),
        ],
        ToolShape::NoId => vec![
            call(Some(0), None, Some(name_1), Some(arguments_1)),
            call(Some(1), None, Some(name_2), Some(arguments_2)),
        ],
        ToolShape::Index0 => vec![
            call(Some(0), Some(id_1), Some(name_1), Some(arguments_1)),
            call(Some(0), Some(id_2), Some(name_2), Some(arguments_2)),
        ],
        ToolShape::NoIndex => vec![
            call(None, Some(id_1), Some(name_1), Some(start_1)),
            call(None, None, None, Some(end_1)),
            call(None, Some(id_2), Some(name_2), Some(arguments_2)),
        ],
        ToolShape::Object => TOOLS
            .map(|(id, name, arguments)| {
                format!(r#"{{"index":0,"id":"{id}","type":"function","function":{{"name":"{name}","arguments":{arguments}}}}}"#)
            })
            .to_vec(),
        ToolShape::Truncated => vec![call(Some(0), Some(id_1), Some(name_1), Some(start_1))],
    };
    calls.iter().map(|call| format!(r#"{{"tool_calls":[{call}]}}"#)).collect()
}

fn call(index: Option<u32>, id: Option<&str>, name: Option<&str>, arguments: Option<&str>) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let index = index.map(|index| format!(r#""index":{index}"#));
    let id = id.map(|id| format!(r#""id":{},"type":"function""#, text(id)));
    let name = name.map(|name| format!(r#""name":{}"#, text(name)));
    let arguments = arguments.map(|arguments| format!(r#""arguments":{}"#, text(arguments)));
    let function: Vec<_> = [name, arguments].into_iter().flatten().collect();
    let function = Some(format!(r#""function":{{{}}}"#, function.join(",")));
    format!("{{{}}}", [index, id, function].into_iter().flatten().collect::<Vec<_>>().join(","))
}
