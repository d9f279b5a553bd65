//! Reads a JSON body into a typed request: bounded, strict, and with the path of what is wrong.

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::BytesMut;
use futures_util::StreamExt;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;

use crate::error::Problem;

/// Reads `body` as a `T`.
///
/// Errors: 415 for another content type, 413 for a body over `bytes_max` (by its announced length without reading it),
/// 400 for broken JSON, 422 with the field's path for JSON of another shape.
pub async fn read_json<T: DeserializeOwned>(headers: &HeaderMap, body: Body, bytes_max: usize) -> Result<T, Problem> {
    if !is_json(headers) {
        return Err(Problem::not_json());
    }
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > bytes_max) {
        return Err(Problem::body_too_large(bytes_max));
    }
    let bytes = collect(body, announced.unwrap_or_default(), bytes_max).await?;
    parse(&bytes)
}

async fn collect(body: Body, announced: usize, bytes_max: usize) -> Result<BytesMut, Problem> {
    let mut bytes = BytesMut::with_capacity(announced);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Problem::malformed("it was cut off"))?;
        if bytes.len() + chunk.len() > bytes_max {
            return Err(Problem::body_too_large(bytes_max));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(text) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // serde would also read a struct from a list of its fields in order, and that is no request.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        let is_json = serde_json::from_slice::<IgnoredAny>(bytes).map_err(Problem::malformed);
        return is_json.and(Err(Problem::invalid(".", "the body must be a JSON object")));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        if cause.classify() == Category::Data { wrong_shape(&path, &cause) } else { Problem::malformed(cause) }
    })?;
    reader.end().map_err(Problem::malformed)?;
    Ok(parsed)
}

fn wrong_shape(path: &str, cause: &serde_json::Error) -> Problem {
    // serde_json adds the position, which says nothing that the path does not.
    let text = cause.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    let named = ["unknown field `", "missing field `", "duplicate field `"]
        .iter()
        .find_map(|prefix| reason.strip_prefix(prefix)?.split('`').next());
    // These are reported at the object around the field; name the field itself.
    let path = match named {
        Some(field) if path == "." => field.to_owned(),
        Some(field) if path != field && !path.ends_with(&format!(".{field}")) => format!("{path}.{field}"),
        _ => path.to_owned(),
    };
    Problem::invalid(path, reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::SubmitRequest;

    fn body_of(text: &str) -> serde_json::Value {
        let problem = parse::<SubmitRequest>(text.as_bytes()).unwrap_err();
        serde_json::to_value(problem.into_body()).unwrap()
    }

    #[test]
    fn the_offending_field_is_named() {
        for (text, path) in [
            (r#"{"agent":"a"}"#, "input"),
            (r#"{"agent":"a","input":"x","inputs":1}"#, "inputs"),
            (r#"{"agent":"a","input":"x","input":"y"}"#, "input"),
            (r#"{"agent":1,"input":"x"}"#, "agent"),
            (r#"{"agent":"a","input":7}"#, "input"),
            (r#"{"agent":"a","input":""}"#, "input"),
            (r#"{"agent":"a","input":[]}"#, "input"),
            (
                r#"{"agent":"a","input":[{"role":"user","id":"1","content":"x"},{"role":"user","id":"2"}]}"#,
                "input[1].content",
            ),
            (r#"{"agent":"a","input":"x","priority":10}"#, "priority"),
            (r#"{"agent":"a","input":"x","priority":-1}"#, "priority"),
            (r#"{"agent":"a","input":"x","task_id":"7"}"#, "task_id"),
            (r#"{"agent":"a","input":"x","user":"a|b"}"#, "user"),
            (r#"{"agent":"a","input":"x","user":""}"#, "user"),
            (r#"{"agent":"a","input":"x","deadline_ms":0}"#, "deadline_ms"),
            (r#"{"agent":"a","input":"x","webhook":"http://x"}"#, "webhook"),
            (r#"["a"]"#, "."),
        ] {
            let body = body_of(text);
            assert_eq!((body["path"].as_str(), body["status"].as_u64()), (Some(path), Some(422)), "{text}: {body}");
        }
    }

    #[test]
    fn what_is_not_json_is_told_apart() {
        for text in ["", "{", r#"{"agent":"a","input":"x"} {}"#, "\u{feff}{}", "nonsense", &"[".repeat(1000)] {
            assert_eq!(body_of(text)["status"], 400, "{text}");
        }
        for text in ["7", "null", r#"["a","x"]"#] {
            assert_eq!(body_of(text)["status"], 422, "{text}");
        }
    }
}
