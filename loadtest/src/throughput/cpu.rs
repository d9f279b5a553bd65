//! CPU time and memory of the processes of a running system, by the pid files that it wrote.

use std::collections::BTreeMap;
use std::path::Path;

/// Clock ticks a second that Linux reports process times in.
const TICKS_PER_S: f64 = 100.0;

/// CPU seconds and resident MB by kind of process (`api`, `worker`, `redis`, …).
pub type Usage = BTreeMap<String, (f64, f64)>;

/// Reads what the processes of `pid_dir` (files `<name>` with a pid) have used so far. Those that are gone are left out.
///
/// # Errors
/// When the folder cannot be read.
pub fn usage(pid_dir: &Path) -> std::io::Result<Usage> {
    let mut usage = Usage::new();
    for file in std::fs::read_dir(pid_dir)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        let kind = name.split('-').next().unwrap_or(&name).to_owned();
        let text = std::fs::read_to_string(file.path())?;
        if let Some(of) = text.split_whitespace().next().and_then(process) {
            let sum = usage.entry(kind).or_default();
            sum.0 += of.0;
            sum.1 += of.1;
        }
    }
    Ok(usage)
}

/// CPU seconds and resident MB of one process.
fn process(pid: &str) -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes = resident.split_whitespace().next()?.parse::<f64>().ok()?;
    Some((ticks / TICKS_PER_S, kilobytes / 1024.0))
}
