//! Which settings may change while a process runs.
//!
//! The one list is `default.toml`: a key whose comment ends with `Hot.` is hot, and so is every name of a section
//! (`[agents.*]`) whose comment does. What a running process takes over from a changed file is decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use toml::{Table, Value};

use crate::DEFAULT_TOML;
use crate::layers::NAMED;

/// Ends the comment of a hot key.
pub(crate) const MARK: &str = "Hot.";

static HOT: LazyLock<BTreeSet<String>> = LazyLock::new(|| marked(DEFAULT_TOML));

/// What a changed file comes to in a process that runs.
#[derive(Debug, PartialEq)]
pub(crate) struct Merged {
    /// The values from now on: hot ones as the file says, cold ones as they are.
    pub(crate) table: Table,
    /// Hot keys that change.
    pub(crate) changed: Vec<String>,
    /// Cold keys that the file wants otherwise; they need a restart.
    pub(crate) cold: Vec<String>,
}

/// Takes the hot values of `read` over into `running`.
pub(crate) fn merge(running: &Table, read: &Table) -> Merged {
    let (old, new) = (leaves(running), leaves(read));
    let mut merged = Merged { table: read.clone(), changed: Vec::new(), cold: Vec::new() };
    for path in old.keys().chain(new.keys().filter(|path| !old.contains_key(*path))) {
        let (was, is) = (old.get(path), new.get(path));
        if was == is {
            continue;
        }
        let name = path.join(".");
        if is_hot(path) {
            merged.changed.push(name);
        } else {
            put(&mut merged.table, path, was.map(|value| (*value).clone()));
            merged.cold.push(name);
        }
    }
    merged
}

fn is_hot(path: &[String]) -> bool {
    match path.first() {
        Some(section) if NAMED.contains(&section.as_str()) => HOT.contains(section),
        _ => HOT.contains(&path.join(".")),
    }
}

/// All values with their paths; a list is one value.
fn leaves(table: &Table) -> BTreeMap<Vec<String>, &Value> {
    fn walk<'a>(table: &'a Table, at: &[String], into: &mut BTreeMap<Vec<String>, &'a Value>) {
        for (key, value) in table {
            let path = [at, std::slice::from_ref(key)].concat();
            match value {
                Value::Table(below) => walk(below, &path, into),
                _ => {
                    into.insert(path, value);
                }
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(table, &[], &mut all);
    all
}

/// Sets or takes away the value at `path`; a table that loses its last value goes with it.
fn put(table: &mut Table, path: &[String], value: Option<Value>) {
    let [key, below @ ..] = path else { return };
    if below.is_empty() {
        match value {
            Some(value) => table.insert(key.clone(), value),
            None => table.remove(key),
        };
        return;
    }
    let next = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(next) = next {
        put(next, below, value);
        if next.is_empty() {
            table.remove(key);
        }
    }
}

/// The hot keys of commented settings, as dotted paths; of a section with names, its first word.
fn marked(text: &str) -> BTreeSet<String> {
    let (mut hot, mut section, mut is_marked) = (BTreeSet::new(), String::new(), false);
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix('#') {
            is_marked = comment.ends_with(MARK);
        } else if let Some(name) = line.strip_prefix('[') {
            name.trim_end_matches(']').clone_into(&mut section);
            if std::mem::take(&mut is_marked) {
                hot.insert(section.split('.').next().unwrap_or_default().to_owned());
            }
        } else if let Some((key, _)) = line.split_once(" = ")
            && std::mem::take(&mut is_marked)
        {
            hot.insert(format!("{section}.{key}"));
        }
    }
    hot
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn hot_values_follow_the_file_and_cold_ones_stay() {
        let running =
            table("[queue]\ndepth_max = 10\nname = \"a\"\n[agents.x]\nchain = \"c\"\n[mysql]\npool_max = 8\n");
        let read =
            table("[queue]\ndepth_max = 20\nname = \"b\"\n[agents.y]\nchain = \"c\"\n[log]\nfilter = \"debug\"\n");
        let merged = merge(&running, &read);
        let expected =
            table("[queue]\ndepth_max = 20\nname = \"a\"\n[agents.y]\nchain = \"c\"\n[mysql]\npool_max = 8\n");
        assert_eq!(merged.table, expected);
        assert_eq!(merged.changed, ["agents.x.chain", "queue.depth_max", "agents.y.chain"]);
        assert_eq!(merged.cold, ["mysql.pool_max", "queue.name", "log.filter"]);
    }

    #[test]
    fn a_file_that_says_the_same_changes_nothing() {
        let running = table("[queue]\ndepth_max = 10\n");
        assert_eq!(merge(&running, &running), Merged { table: running.clone(), changed: vec![], cold: vec![] });
    }

    #[test]
    fn what_ties_a_process_to_its_servers_is_cold() {
        for path in ["deployment.id", "redis.url", "mysql.url", "api.listen", "queue.name", "queue.lease_ms"] {
            assert!(!HOT.contains(path), "{path}");
        }
        for path in ["queue.depth_max", "queue.failures_max", "worker.attempt_ms_max", "agents"] {
            assert!(HOT.contains(path), "{path}");
        }
    }
}
