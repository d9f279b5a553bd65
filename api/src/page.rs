//! Pages of rows: one row more than is shown is read, and tells whether there is a next page.

/// Cuts `rows`, of which `limit + 1` were asked for, to what is shown. Returns whether there are more.
pub(crate) fn cut_to_page<T>(rows: &mut Vec<T>, limit: u32) -> bool {
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > shown;
    rows.truncate(shown);
    has_more
}
