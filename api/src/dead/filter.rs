//! Which dead letters are meant, and where a page of them begins.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use penstock_protocol::{ErrorCode, TaskId};
use penstock_store::{DeadFilter, DeadPage, TaskRow};

use crate::error::Problem;

/// Eight bytes of the moment of death, sixteen of the id.
const CURSOR_BYTES: usize = 24;

/// The filter that a caller named. Errors: 422 when it names nothing, since that would mean every letter.
pub(super) fn named(filter: DeadFilter) -> Result<DeadFilter, Problem> {
    if filter.is_empty() {
        let reason = "name at least one of agent, code, user, after_ms, before_ms; before_ms alone may mean all";
        return Err(Problem::invalid(".", reason));
    }
    Ok(filter)
}

/// How many letters a call is about. Errors: 422 when it is none or more than `most`.
pub(super) fn limit(asked: Option<u32>, most: u32) -> Result<u32, Problem> {
    let limit = asked.unwrap_or(most);
    if !(1..=most).contains(&limit) {
        return Err(Problem::invalid("limit", format!("ask for 1 to {most}")));
    }
    Ok(limit)
}

/// The code that a text names.
pub(super) fn code(text: Option<&str>) -> Result<Option<ErrorCode>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let known = ErrorCode::ALL.into_iter().find(|code| code.as_str() == text);
    let names = || ErrorCode::ALL.map(ErrorCode::as_str).join(", ");
    known.map(Some).ok_or_else(|| Problem::invalid("code", format!("one of {}", names())))
}

/// The cursor that continues behind `row`; `None` for a task that is no dead letter.
pub(super) fn behind(row: &TaskRow) -> Option<String> {
    let mut bytes = [0_u8; CURSOR_BYTES];
    bytes[..8].copy_from_slice(&row.dead_ms?.to_be_bytes());
    bytes[8..].copy_from_slice(row.key.task.0.as_bytes());
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// Reads a cursor back. Errors: 422 when it is none of ours.
pub(super) fn page(text: Option<&str>) -> Result<Option<DeadPage>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let read = || {
        let bytes: [u8; CURSOR_BYTES] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let (moment, id) = bytes.split_at(8);
        let dead_ms = u64::from_be_bytes(moment.try_into().ok()?);
        Some(DeadPage { dead_ms, task: TaskId(uuid::Uuid::from_slice(id).ok()?) })
    };
    read().map(Some).ok_or_else(|| Problem::invalid("cursor", "pass `next` of the page before, unchanged"))
}
