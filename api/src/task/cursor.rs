//! The opaque cursor of a list: the last task seen, in base64url. It names no moment that the list does not show.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use penstock_protocol::TaskId;
use penstock_store::{Page, TaskRow};

/// Eight bytes of the moment of acceptance, sixteen of the id.
const BYTES: usize = 24;

/// The cursor that continues behind `row`.
pub(super) fn behind(row: &TaskRow) -> String {
    let mut bytes = [0_u8; BYTES];
    bytes[..8].copy_from_slice(&row.accepted_ms.to_be_bytes());
    bytes[8..].copy_from_slice(row.key.task.0.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads a cursor back; `None` when it is not one of ours.
pub(super) fn read(text: &str) -> Option<Page> {
    let bytes: [u8; BYTES] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
    let (moment, id) = bytes.split_at(8);
    let accepted_ms = u64::from_be_bytes(moment.try_into().ok()?);
    Some(Page { accepted_ms, task: TaskId(uuid::Uuid::from_slice(id).ok()?) })
}
