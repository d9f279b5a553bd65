//! Prints settings: the effective ones with their origin, secrets hidden, and the reference page for the docs.

use std::fmt::Write;

use toml::{Table, Value};

use crate::layers::origin_of;
use crate::{DEFAULT_TOML, Loaded};

/// Keys whose value may hold a password.
const SECRET: [&str; 2] = ["redis.url", "mysql.url"];

/// Every effective setting as TOML, with the origin of each value that is not a default.
#[must_use]
pub fn effective(loaded: &Loaded) -> String {
    let mut out = String::new();
    section(&mut out, loaded, &loaded.table, "");
    out
}

fn section(out: &mut String, loaded: &Loaded, table: &Table, at: &str) {
    let (tables, values): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| value.is_table());
    if !values.is_empty() {
        let _ = writeln!(out, "[{at}]");
    }
    for (key, value) in values {
        let path = format!("{at}.{key}");
        let shown = if SECRET.contains(&path.as_str()) { hidden(value) } else { value.to_string() };
        let _ = writeln!(out, "{key} = {shown}  # {}", origin_of(&loaded.origins, &path));
    }
    if !out.is_empty() && !out.ends_with("\n\n") {
        out.push('\n');
    }
    for (key, value) in tables {
        if let Value::Table(below) = value {
            let key = quoted(key);
            section(out, loaded, below, &if at.is_empty() { key } else { format!("{at}.{key}") });
        }
    }
}

/// A name as TOML writes it.
fn quoted(key: &str) -> String {
    let is_bare = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if is_bare { key.to_owned() } else { format!("{key:?}") }
}

/// A URL without its user and password.
fn hidden(url: &Value) -> String {
    let text = url.as_str().unwrap_or_default();
    let shown = match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        _ => text.to_owned(),
    };
    format!("\"{shown}\"")
}

/// The settings reference as Markdown, made from the commented defaults.
#[must_use]
pub fn reference() -> String {
    let mut out = String::from(
        "# Settings\n\nMade by `penstock-api config --reference` from the compiled-in defaults; do not edit by hand.\n\n",
    );
    let mut comment = String::new();
    for line in DEFAULT_TOML.lines() {
        if let Some(text) = line.strip_prefix("# ") {
            if !comment.is_empty() {
                comment.push(' ');
            }
            comment.push_str(text);
        } else if let Some(name) = line.strip_prefix('[') {
            let _ = writeln!(out, "\n## `{}`\n", name.trim_end_matches(']'));
            if !comment.is_empty() {
                let _ = writeln!(out, "{comment}\n");
            }
            let _ = writeln!(out, "| key | default | meaning |\n| --- | --- | --- |");
            comment.clear();
        } else if let Some((key, value)) = line.split_once(" = ") {
            let _ = writeln!(out, "| `{key}` | `{value}` | {} |", comment.replace('|', "\\|"));
            comment.clear();
        } else if out.lines().count() < 5 && !comment.is_empty() {
            let _ = writeln!(out, "{comment}");
            comment.clear();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::layered;

    #[test]
    fn secrets_are_hidden_and_origins_shown() {
        let variables = [("REDIS_URL".to_owned(), "redis://:hunter2@10.0.0.1:6379/".to_owned())];
        let loaded = layered(None, variables.into_iter()).unwrap();
        let text = effective(&loaded);
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("url = \"redis://***@10.0.0.1:6379/\"  # REDIS_URL"), "{text}");
        assert!(text.contains("depth_max = 10000  # default"), "{text}");
    }

    #[test]
    fn the_reference_names_every_key_with_its_meaning() {
        let text = reference();
        for line in DEFAULT_TOML.lines().filter(|line| !line.starts_with('#') && line.contains(" = ")) {
            let key = line.split(" = ").next().unwrap();
            let row = text.lines().find(|row| row.starts_with(&format!("| `{key}` |")));
            assert!(row.is_some_and(|row| !row.ends_with("|  |")), "{key} has no meaning");
        }
    }
}
