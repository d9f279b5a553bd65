//! Puts the layers over each other: defaults, file, environment; and remembers where each value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::{ConfigError, DEFAULT_TOML, Settings, check};

/// Sections whose keys are names chosen by the operator: a file that has the section replaces the defaults' names.
pub(crate) const NAMED: [&str; 4] = ["providers", "models", "chains", "agents"];
/// Short environment names that other tools share.
const SHORT: [(&str, &str); 3] =
    [("REDIS_URL", "redis.url"), ("DATABASE_URL", "mysql.url"), ("RUST_LOG", "log.filter")];
const PREFIX: &str = "PENSTOCK_";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Compiled in.
    Default,
    /// The operator's file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
}

/// Settings with the origin of each key.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Checked settings.
    pub settings: Settings,
    /// The operator's file, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// Its text.
    pub(crate) text: String,
    /// All values, as merged.
    pub(crate) table: Table,
    /// Dotted path → origin; paths that are absent are defaults.
    pub(crate) origins: BTreeMap<String, Origin>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => path.display().fmt(f),
            Self::Environment(name) => f.write_str(name),
        }
    }
}

/// Loads the settings of a process: defaults, then `file` (or PENSTOCK_CONFIG), then the environment; checked.
///
/// Errors name the key's path and its origin.
pub fn load(file: Option<&Path>) -> Result<Loaded, ConfigError> {
    let named = environment("PENSTOCK_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
    let Some(path) = file.or(named.as_deref()) else { return layered(None, variables()) };
    let text =
        std::fs::read_to_string(path).map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })?;
    layered(Some((path, &text)), variables())
}

/// All variables of the process.
pub(crate) fn variables() -> std::env::Vars {
    std::env::vars()
}

/// One variable; `None` where it is unset or not UTF-8.
#[expect(clippy::disallowed_methods, reason = "this is the one module that reads the environment")]
pub(crate) fn environment(variable: &str) -> Option<String> {
    std::env::var(variable).ok()
}

pub(crate) fn layered(
    file: Option<(&Path, &str)>,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, ConfigError> {
    let mut table = parse(Path::new("default.toml"), DEFAULT_TOML)?;
    let mut origins = BTreeMap::new();
    if let Some((path, text)) = file {
        let over = parse(path, text)?;
        for section in NAMED {
            if over.contains_key(section) {
                table.remove(section);
            }
        }
        // The default models belong to the default providers.
        if over.contains_key("providers") {
            table.remove("models");
        }
        merge(&mut table, over, "", &Origin::File(path.to_owned()), &mut origins);
    }
    for (name, text) in variables {
        if let Some(path) = path_of(&name) {
            set(&mut table, &path, &text);
            origins.insert(path, Origin::Environment(name));
        }
    }
    let settings = checked(&table, &origins)?;
    let (file, text) = file.map(|(path, text)| (path.to_owned(), text.to_owned())).unzip();
    Ok(Loaded { settings, file, text: text.unwrap_or_default(), table, origins })
}

/// The settings that a table of values says, typed and checked.
pub(crate) fn checked(table: &Table, origins: &BTreeMap<String, Origin>) -> Result<Settings, ConfigError> {
    let settings = typed(table, origins)?;
    check::relations(&settings)?;
    Ok(settings)
}

fn parse(path: &Path, text: &str) -> Result<Table, ConfigError> {
    text.parse().map_err(|cause| ConfigError::Syntax { path: path.to_owned(), cause: Box::new(cause) })
}

fn merge(into: &mut Table, over: Table, at: &str, origin: &Origin, origins: &mut BTreeMap<String, Origin>) {
    for (key, value) in over {
        let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        match (into.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above, &path, origin, origins),
            (None, Value::Table(above)) => {
                let mut fresh = Table::new();
                merge(&mut fresh, above, &path, origin, origins);
                into.insert(key, Value::Table(fresh));
            }
            (_, value) => {
                into.insert(key, value);
                origins.insert(path, origin.clone());
            }
        }
    }
}

/// The dotted path that a variable sets: `PENSTOCK_QUEUE__DEPTH_MAX` → `queue.depth_max`.
fn path_of(variable: &str) -> Option<String> {
    if let Some((_, path)) = SHORT.iter().find(|(short, _)| *short == variable) {
        return Some((*path).to_owned());
    }
    let rest = variable.strip_prefix(PREFIX)?;
    rest.contains("__").then(|| rest.to_lowercase().replace("__", "."))
}

/// Puts a variable's text at `path`, typed as TOML where it reads as a number, boolean or list, else as a string.
/// A key whose default is a string stays a string, so that a password of digits is not a number.
fn set(table: &mut Table, path: &str, text: &str) {
    let mut at = table;
    let mut keys = path.split('.').peekable();
    while let Some(key) = keys.next() {
        if keys.peek().is_none() {
            let is_text = matches!(at.get(key), Some(Value::String(_)));
            let read = format!("v = {text}").parse::<Table>().ok().and_then(|mut read| read.remove("v"));
            let value = read.filter(|value| !is_text && !value.is_table()).unwrap_or(Value::String(text.to_owned()));
            at.insert(key.to_owned(), value);
            return;
        }
        let below = at.entry(key.to_owned()).or_insert_with(|| Value::Table(Table::new()));
        if !below.is_table() {
            *below = Value::Table(Table::new());
        }
        let Value::Table(next) = below else { return };
        at = next;
    }
}

fn typed(table: &Table, origins: &BTreeMap<String, Origin>) -> Result<Settings, ConfigError> {
    serde_path_to_error::deserialize(Value::Table(table.clone())).map_err(|error| {
        let mut path = error.path().to_string();
        let message = error.into_inner().message().to_owned();
        // An unknown key is reported at its section; name the key itself.
        if let Some(key) = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next())
            && !path.ends_with(key)
        {
            path = if path == "." { key.to_owned() } else { format!("{path}.{key}") };
        }
        let origin = origin_of(origins, &path).to_string();
        ConfigError::Key { path, origin, message }
    })
}

/// The origin of a key, or of the first key below it.
pub(crate) fn origin_of(origins: &BTreeMap<String, Origin>, path: &str) -> Origin {
    let below = format!("{path}.");
    origins
        .get(path)
        .or_else(|| origins.range(below.clone()..).next().filter(|(key, _)| key.starts_with(&below)).map(|(_, o)| o))
        .cloned()
        .unwrap_or(Origin::Default)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(file: Option<&str>, variables: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
        let variables = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        layered(file.map(|text| (Path::new("own.toml"), text)), variables)
    }

    #[test]
    fn the_defaults_are_complete_and_consistent() {
        let settings = with(None, &[]).unwrap().settings;
        assert_eq!(settings.queue.depth_max, 10_000);
        assert!(settings.agents.contains_key("assistant"));
    }

    #[test]
    fn the_environment_wins_over_the_file_and_the_file_over_defaults() {
        let loaded = with(
            Some("[queue]\ndepth_max = 7\ntenant_depth_max = 7\nlease_ms = 20000\n"),
            &[("PENSTOCK_QUEUE__DEPTH_MAX", "9"), ("REDIS_URL", "redis://127.0.0.1:1/")],
        )
        .unwrap();
        assert_eq!(loaded.settings.queue.depth_max, 9);
        assert_eq!(loaded.settings.queue.lease.as_millis(), 20_000);
        assert_eq!(
            origin_of(&loaded.origins, "queue.depth_max"),
            Origin::Environment("PENSTOCK_QUEUE__DEPTH_MAX".into())
        );
        assert_eq!(origin_of(&loaded.origins, "queue.name"), Origin::Default);
    }

    #[test]
    fn unknown_keys_are_refused_with_their_path() {
        let error = with(Some("[queue]\ndepth = 7\n"), &[]).unwrap_err().to_string();
        assert!(error.starts_with("queue.depth (from "), "{error}");
        let error = with(None, &[("PENSTOCK_QUEUE__DEPHT_MAX", "7")]).unwrap_err().to_string();
        assert!(error.contains("queue.depht_max (from PENSTOCK_QUEUE__DEPHT_MAX)"), "{error}");
        let error = with(None, &[("PENSTOCK_API__LISTEN", "here")]).unwrap_err().to_string();
        assert!(error.starts_with("api.listen"), "{error}");
    }

    #[test]
    fn contradictions_are_listed_all_at_once() {
        let error =
            with(Some("[queue]\nlease_ms = 5000\n[gateway]\nfirst_token_ms = 90000\n"), &[]).unwrap_err().to_string();
        assert!(error.contains("queue.lease_ms"), "{error}");
        assert!(error.contains("gateway.first_token_ms"), "{error}");
    }

    #[test]
    fn a_hop_may_say_how_requests_are_changed_for_it() {
        let file = "[chains.default]\nhops = [\"openai/a\", { exit = \"openai/b\", set = { thinking = { type = \"on\" } }, drop = [\"x\"] }]\n";
        let settings = with(Some(file), &[]).unwrap().settings;
        let [plain, changed] = &settings.chains["default"].hops[..] else { panic!("two hops") };
        assert!(plain.set.is_empty() && plain.drop.is_empty() && !plain.cache_markers);
        assert_eq!((changed.exit.model.as_str(), &changed.drop[..]), ("b", &["x".to_owned()][..]));
        assert_eq!(changed.set["thinking"]["type"].as_str(), Some("on"));
        let error = with(Some("[chains.default]\nhops = [{ exit = \"openai/b\", sets = 1 }]\n"), &[]).unwrap_err();
        assert!(error.to_string().contains("chains.default.hops"), "{error}");
    }

    #[test]
    fn a_breaker_list_that_names_no_countable_outcome_is_refused() {
        for list in ["[]", "[\"rate_limited\"]", "[\"connect\", \"oops\"]"] {
            let file = format!(
                "[providers.openai]\ndialect = \"openai\"\nbase_url = \"http://x/v1\"\nbreaker_count = {list}\n"
            );
            let error = with(Some(&file), &[]).unwrap_err().to_string();
            assert!(error.contains("providers.openai.breaker_count"), "{list}: {error}");
        }
    }

    #[test]
    fn named_sections_of_a_file_replace_the_default_names() {
        let file = "[providers.p]\ndialect = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n[chains.c]\nhops = [\"p/m/x\"]\n[agents.a]\nchain = \"c\"\n";
        let settings = with(Some(file), &[]).unwrap().settings;
        assert_eq!(settings.agents.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(settings.chains["c"].hops[0].exit.model, "m/x");
        let error = with(Some("[agents.a]\nchain = \"nowhere\"\n"), &[]).unwrap_err().to_string();
        assert!(error.contains("agents.a.chain"), "{error}");
    }
}
