//! Text of statements that touch many rows, each with values of its own.

use std::collections::HashSet;
use std::hash::Hash;

/// A row with more text than this has a statement of its own: all rows of the largest batch together stay well below
/// the 16 MiB that both servers take as one packet by default.
pub(super) const SHARED_BYTES_MAX: usize = 32 * 1024;

/// `CASE id WHEN ? THEN ? … END`: the value of a row, by its id.
pub(super) fn choice(rows: usize) -> String {
    format!("CASE id{} END", " WHEN ? THEN ?".repeat(rows))
}

/// `column = CASE id …`.
pub(super) fn by_id(column: &str, rows: usize) -> String {
    format!("{column} = {}", choice(rows))
}

/// `condition OR condition …`.
pub(crate) fn any_of(condition: &str, rows: usize) -> String {
    vec![condition; rows].join(" OR ")
}

/// Fills up to a power of two with the last row: repeated conditions change nothing, and there are few statements to
/// prepare.
pub(crate) fn padded<T: Copy>(mut rows: Vec<T>) -> Vec<T> {
    if let Some(last) = rows.last().copied() {
        rows.resize(rows.len().next_power_of_two(), last);
    }
    rows
}

/// The largest size of an INSERT that `rows` fill: a power of two, or one and a half of it; 1 for none.
pub(super) fn insert_size(rows: usize) -> usize {
    let rows = rows.max(1);
    let power = (rows + 1).next_power_of_two() / 2;
    let more = power + power / 2;
    if more <= rows { more } else { power }
}

/// Splits items so that no id comes twice in a round: a client-minted id may be two tenants' at once, and [`choice`]
/// knows rows by id alone. One round, but for that.
pub(super) fn rounds<T, K: Hash + Eq>(items: &[T], id: impl Fn(&T) -> K) -> Vec<Vec<&T>> {
    let (mut rounds, mut rest): (Vec<Vec<&T>>, Vec<&T>) = (Vec::new(), items.iter().collect());
    while !rest.is_empty() {
        let mut seen = HashSet::new();
        let (now, later) = rest.into_iter().partition(|item| seen.insert(id(item)));
        rounds.push(now);
        rest = later;
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_written_in_few_sizes_and_none_is_left() {
        for rows in 1..=256 {
            let size = insert_size(rows);
            assert!(size >= 1 && size <= rows && 3 * size > 2 * rows - 2, "{size} of {rows}");
            assert_eq!(padded(vec![7; rows]).len(), rows.next_power_of_two());
        }
        let sizes: HashSet<_> = (1..=64).map(insert_size).collect();
        assert!(sizes.len() <= 13, "{sizes:?}");
    }

    #[test]
    fn no_id_comes_twice_in_a_round_and_nothing_is_lost() {
        let split = rounds(&[(1, 'a'), (2, 'b'), (1, 'c'), (1, 'd')], |item| item.0);
        assert_eq!(split, [vec![&(1, 'a'), &(2, 'b')], vec![&(1, 'c')], vec![&(1, 'd')]]);
    }
}
