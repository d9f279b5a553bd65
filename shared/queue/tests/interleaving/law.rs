//! The laws, judged after each step by reading everything and adding it up again, apart from the verbs.

use std::collections::{BTreeMap, HashMap, HashSet};

use penstock_protocol::{Event, EventId, Status, TaskKey, event::Outcome};
use penstock_queue::AuditPart;
use penstock_queue::fixture::{Value, from_redis_value};

use crate::patience::sql;
use crate::world::{Law, World};

/// A record, read by the test's own eyes.
struct Record {
    status: char,
    user: String,
    thread: String,
    place: String,
    turn: String,
    entry: String,
}

#[derive(Default, Debug, PartialEq, Eq, Clone, Copy)]
struct Counts {
    admitted: i64,
    waiting: i64,
    lined: i64,
    running: i64,
}

struct Book {
    records: BTreeMap<String, Record>,
    homes: HashMap<&'static str, HashSet<String>>,
    ring: HashMap<String, f64>,
    tenants: HashMap<String, Vec<f64>>,
    users: HashMap<String, i64>,
    threads: HashMap<String, String>,
    stats: HashMap<String, f64>,
    line: HashSet<String>,
    held: HashSet<String>,
}

fn same<T: PartialEq + std::fmt::Debug>(what: impl std::fmt::Display, found: T, expected: T) -> Law {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}")) }
}

fn hash(value: Value) -> HashMap<String, String> {
    from_redis_value::<HashMap<String, String>>(value).unwrap()
}

fn set(value: Value) -> HashSet<String> {
    from_redis_value::<Vec<String>>(value).unwrap().into_iter().collect()
}

impl World {
    async fn book(&self) -> Book {
        let names = [
            "tasks", "admitted", "line", "held", "delayed", "leases", "done", "ready", "ring", "tenants", "users",
            "threads", "stats",
        ];
        let keys: Vec<String> = names.iter().map(|name| self.test.key(name)).collect();
        let read = |at: usize| match names[at] {
            "tasks" | "tenants" | "users" | "threads" | "stats" => vec!["HGETALL", keys[at].as_str()],
            "ready" => vec!["XRANGE", keys[at].as_str(), "-", "+"],
            "ring" => vec!["ZRANGE", keys[at].as_str(), "0", "-1", "WITHSCORES"],
            _ => vec!["ZRANGE", keys[at].as_str(), "0", "-1"],
        };
        let commands: Vec<_> = (0..names.len()).map(read).collect();
        let mut answers = self.test.commands(&commands).await.into_iter();
        let mut next = || answers.next().unwrap();
        let records = hash(next()).into_iter().filter(|(id, _)| id != "#").map(|(id, text)| (id, record(&text)));
        let records = records.collect();
        let admitted = set(next());
        let (line, held) = (set(next()), set(next()));
        let last = |member: &String| member.rsplit('|').next().unwrap().to_owned();
        let mut homes = HashMap::from([
            ("admitted", admitted),
            ("line", line.iter().map(last).collect()),
            ("held", held.iter().map(last).collect()),
            ("delayed", set(next())),
            ("leases", set(next())),
            ("done", set(next())),
        ]);
        let entries: Vec<(String, Vec<String>)> = from_redis_value(next()).unwrap();
        homes.insert("ready", entries.iter().map(|(_, fields)| fields[1].clone()).collect());
        let ring: Vec<(String, f64)> = from_redis_value(next()).unwrap();
        let tenants = hash(next()).into_iter().filter(|(no, _)| no != "#");
        let tenants = tenants.map(|(no, text)| (no, text.split('|').map(|n| n.parse().unwrap()).collect()));
        let tenants = tenants.collect();
        let users = hash(next()).into_iter().filter(|(user, _)| user != "#");
        let users = users.map(|(user, live)| (user, live.parse().unwrap())).collect();
        let threads = hash(next()).into_iter().filter(|(thread, _)| thread != "#").collect();
        let stats = hash(next()).into_iter().filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect();
        Book { records, homes, ring: ring.into_iter().collect(), tenants, users, threads, stats, line, held }
    }

    pub(crate) async fn depth_by_records(&self) -> u64 {
        let book = self.book().await;
        book.records.values().filter(|record| "AWHR".contains(record.status)).count() as u64
    }

    /// How many tasks Redis knows, tombstones included.
    pub(crate) async fn record_count(&self) -> usize {
        self.book().await.records.len()
    }

    /// Homes, counters, ring and threads equal the records.
    pub(crate) async fn judge_book(&self) -> Law {
        let book = self.book().await;
        let mut counts: HashMap<String, Counts> = HashMap::new();
        let mut users: HashMap<String, i64> = HashMap::new();
        let mut holders: HashMap<String, String> = HashMap::new();
        let mut homes: HashMap<&str, HashSet<String>> = HashMap::new();
        for (id, record) in &book.records {
            let tenant = id.split('.').next().unwrap().to_owned();
            let home = match record.status {
                'A' => "admitted",
                'W' => "line",
                'H' => "held",
                'D' => "delayed",
                'R' => "ready",
                'X' => "leases",
                'F' => "done",
                other => return Err(format!("{id} has status {other}")),
            };
            homes.entry(home).or_default().insert(id.clone());
            let count = counts.entry(tenant.clone()).or_default();
            count.admitted += i64::from(record.status == 'A');
            count.waiting += i64::from("WHD".contains(record.status));
            count.lined += i64::from(record.status == 'W');
            count.running += i64::from("RX".contains(record.status));
            if record.status != 'F' && !record.user.is_empty() {
                *users.entry(format!("{tenant}|{}", record.user)).or_default() += 1;
            }
            let thread = format!("{tenant}|{}", record.thread);
            if "WDRX".contains(record.status)
                && !record.thread.is_empty()
                && let Some(other) = holders.insert(thread.clone(), id.clone())
            {
                return Err(format!("thread {thread} is live in {id} and in {other}"));
            }
            let turn = if record.turn.is_empty() { &record.place } else { &record.turn };
            if record.status == 'W' && !book.line.contains(&format!("{tenant}|{}|{id}", record.place)) {
                return Err(format!("{id} stands in line at another place than its own"));
            }
            if record.status == 'H' && !book.held.contains(&format!("{thread}|{turn}|{id}")) {
                return Err(format!("{id} is held at another place than its own"));
            }
            if record.status == 'R' && record.entry.is_empty() {
                return Err(format!("{id} is handed out without an entry"));
            }
        }
        for (name, members) in &book.homes {
            same(format!("members of {name}"), members, &homes.remove(name).unwrap_or_default())?;
        }
        same("users", &book.users, &users)?;
        same("holders of threads", &book.threads, &holders)?;
        for (id, record) in &book.records {
            let thread = format!("{}|{}", id.split('.').next().unwrap(), record.thread);
            if record.status == 'H' && !holders.contains_key(&thread) {
                return Err(format!("{id} is held by thread {thread}, which nobody has"));
            }
        }

        let mut weights = 0.0;
        for (no, fields) in &book.tenants {
            let [tag, weight, cap, _, admitted, waiting, lined, running, hold, _] = fields[..] else {
                return Err(format!("tenant {no} has {} fields", fields.len()));
            };
            let expected = counts.remove(no).unwrap_or_default();
            let found = [admitted, waiting, lined, running];
            let truth = [expected.admitted, expected.waiting, expected.lined, expected.running];
            same(format!("counts of tenant {no}"), found, truth.map(|count| count as f64))?;
            let is_eligible = lined > 0.0 && hold == 0.0 && (cap == 0.0 || running < cap);
            same(format!("tag of tenant {no} in the ring"), book.ring.get(no).copied(), is_eligible.then_some(tag))?;
            weights += if is_eligible { weight } else { 0.0 };
        }
        counts.retain(|_, count| *count != Counts::default());
        same("tenants without a record", counts, HashMap::new())?;
        let stat = |name: &str| book.stats.get(name).copied().unwrap_or(0.0);
        let size = |home: &str| book.homes[home].len() as f64;
        same("weights", stat("weights"), weights)?;
        same("used slots", stat("used"), size("ready") + size("leases"))?;
        same("held", stat("held"), size("held"))?;
        self.judge_audit().await?;
        if weights > 0.0 && stat("used") < stat("slots") {
            return Err(format!("{} of {} slots are used while a tenant may run", stat("used"), stat("slots")));
        }
        Ok(())
    }

    /// What the audit of a running system would say of a sound book: nothing.
    async fn judge_audit(&self) -> Law {
        for part in AuditPart::ALL {
            let page = self.test.queue.audit(part, None, 1000, false).await.unwrap();
            same(format!("findings of an audit of {part:?}"), page.findings, Vec::new())?;
        }
        Ok(())
    }

    /// The streams that this step may have written to.
    pub(crate) async fn judge_streams(&mut self) -> Law {
        let keys: Vec<TaskKey> = std::mem::take(&mut self.touched);
        for key in keys {
            let events = self.test.queue.read_events(key, EventId::default(), 10_000).await.unwrap();
            let has_lost = self.known(key).has_lost_events;
            for (at, event) in events.iter().enumerate() {
                let number = if at == 0 { if has_lost { event.seq } else { 1 } } else { events[at - 1].seq + 1 };
                same(format!("number of event {} of {key}", event.id), event.seq, number)?;
            }
            let first = events.first().map(|event| event.event.as_str()).unwrap_or_default();
            if !has_lost && !first.is_empty() && !first.contains("RUN_STARTED") && events.len() > 1 {
                return Err(format!("the stream of {key} begins with {first}"));
            }
            let starts = events.iter().filter(|event| event.event.contains("RUN_STARTED")).count();
            if starts > 1 {
                return Err(format!("{key} was opened {starts} times"));
            }
            let Some(at) = events.iter().position(|event| penstock_protocol::event::is_terminal_json(&event.event))
            else {
                continue;
            };
            if at + 1 < events.len() {
                return Err(format!("{key} has {} after its end", events[at + 1].event));
            }
            let row = sql!(self, task(key)).ok_or_else(|| format!("{key} ended without a row"))?;
            let told = match serde_json::from_str::<Event>(&events[at].event).unwrap() {
                Event::RunFinished { outcome: Some(Outcome::Success), .. } => Status::Succeeded,
                Event::RunFinished { .. } => Status::Cancelled,
                _ => Status::Failed,
            };
            same(format!("end of {key} as told and as stored"), told, row.status)?;
            let known = self.known(key);
            let before = *known.ended.get_or_insert(row.status);
            same(format!("end of {key}"), row.status, before)?;
        }
        Ok(())
    }

    /// After everything came to rest: each accepted task has ended and said so, and nothing is left in Redis.
    pub(crate) async fn judge_rest(&mut self) -> Law {
        self.judge_book().await?;
        for key in self.order.clone() {
            let known = &self.known[&key];
            if !known.is_accepted {
                continue;
            }
            let (has_lost, is_silent) = (known.has_lost_events, known.may_be_silent);
            let row = sql!(self, task(key)).ok_or_else(|| format!("the row of {key} is gone"))?;
            if !row.status.is_terminal() {
                return Err(format!("{key} is still {}", row.status.as_str()));
            }
            self.touched.push(key);
            let events = self.test.queue.read_events(key, EventId::default(), 10_000).await.unwrap();
            let ends = events.iter().filter(|event| penstock_protocol::event::is_terminal_json(&event.event)).count();
            if ends != 1 && !(ends == 0 && (has_lost || is_silent)) {
                return Err(format!("{key} told its end {ends} times"));
            }
        }
        self.judge_streams().await
    }
}

fn record(text: &str) -> Record {
    let fields: Vec<&str> = text.split('|').collect();
    assert_eq!(fields.len(), 11, "{text}");
    Record {
        status: fields[0].chars().next().unwrap(),
        user: fields[2].to_owned(),
        thread: fields[3].to_owned(),
        place: fields[4].to_owned(),
        turn: fields[5].to_owned(),
        entry: fields[8].to_owned(),
    }
}
