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
    agent: String,
    is_quarantined: bool,
}

impl Record {
    fn is_registered_for_later(&self) -> bool {
        self.status == 'A' && !self.place.is_empty()
    }
}

#[derive(Default, Debug, PartialEq, Eq, Clone, Copy)]
struct Counts {
    admitted: i64,
    waiting: i64,
    lined: i64,
    running: i64,
    delayed: i64,
}

struct Book {
    records: BTreeMap<String, Record>,
    homes: HashMap<&'static str, HashSet<String>>,
    ring: HashMap<String, f64>,
    tenants: HashMap<String, Vec<String>>,
    users: HashMap<String, i64>,
    threads: HashMap<String, String>,
    totals: Vec<String>,
    paced: HashSet<String>,
    line: HashSet<String>,
    held: HashSet<String>,
    lane: Vec<String>,
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
            "threads", "paced",
        ];
        let keys: Vec<String> = names.iter().map(|name| self.test.key(name)).collect();
        let read = |at: usize| match names[at] {
            "tasks" | "tenants" | "users" | "threads" => vec!["HGETALL", keys[at].as_str()],
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
        // Members name the tenant once: `tenant|…|task`, those of a paused agent `@agent|tenant|…|task`, and those in
        // quarantine `q|tenant|…|task`.
        let last = |member: &String| {
            let mut parts = member.split('|').skip_while(|part| part.starts_with('@') || *part == "q");
            format!("{}.{}", parts.next().unwrap(), parts.last().unwrap())
        };
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
        let mut tenants: HashMap<String, Vec<String>> =
            hash(next()).into_iter().map(|(no, text)| (no, text.split('|').map(ToOwned::to_owned).collect())).collect();
        tenants.retain(|no, _| !no.starts_with('~'));
        let totals = tenants.remove("#").unwrap_or_default();
        let users = hash(next()).into_iter().filter(|(user, _)| user != "#");
        let users = users.map(|(user, live)| (user, live.parse().unwrap())).collect();
        let threads = hash(next()).into_iter().filter(|(thread, _)| thread != "#").collect();
        let paced = set(next());
        // waiting, width, tenant served last, ids that run in it
        let lane: Vec<String> =
            totals.get(14).map(|lane: &String| lane.splitn(4, ',').map(str::to_owned).collect()).unwrap_or_default();
        let ring = ring.into_iter().collect();
        Book { records, homes, ring, tenants, users, threads, totals, paced, line, held, lane }
    }

    /// Tasks in the depth, and tasks that wait for a time.
    pub(crate) async fn depth_by_records(&self) -> (u64, u64) {
        let book = self.book().await;
        let is_later = |record: &Record| record.status == 'D' || record.is_registered_for_later();
        let depth =
            book.records.values().filter(|record| "AWHPQR".contains(record.status) && !is_later(record)).count();
        (depth as u64, book.records.values().filter(|record| is_later(record)).count() as u64)
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
        let mut later = 0;
        for (id, record) in &book.records {
            let tenant = id.split('.').next().unwrap().to_owned();
            let home = match record.status {
                'A' => "admitted",
                'W' => "line",
                'H' | 'P' | 'Q' => "held",
                'D' => "delayed",
                'R' => "ready",
                'X' => "leases",
                'F' => "done",
                other => return Err(format!("{id} has status {other}")),
            };
            homes.entry(home).or_default().insert(id.clone());
            let count = counts.entry(tenant.clone()).or_default();
            count.admitted += i64::from(record.status == 'A' && !record.is_registered_for_later());
            count.waiting += i64::from("WHPQ".contains(record.status));
            count.delayed += i64::from(record.status == 'D' || record.is_registered_for_later());
            later += i64::from(record.is_registered_for_later());
            count.lined += i64::from(record.status == 'W');
            count.running += i64::from("RX".contains(record.status));
            if record.status != 'F' && !record.user.is_empty() {
                *users.entry(format!("{tenant}|{}", record.user)).or_default() += 1;
            }
            let thread = format!("{tenant}|{}", record.thread);
            // What is scheduled and has not run has no turn yet.
            let has_turn = "AWPQRX".contains(record.status)
                || record.status == 'D' && book.threads.get(&thread) == Some(&record.place);
            if has_turn
                && !record.thread.is_empty()
                && let Some(other) = holders.insert(thread.clone(), record.place.clone())
            {
                return Err(format!("thread {thread} is live in {id} and at {other}"));
            }
            let turn = if record.turn.is_empty() { &record.place } else { &record.turn };
            let task = id.split('.').next_back().unwrap();
            if record.status == 'W' && !book.line.contains(&format!("{tenant}|{}|{task}", record.place)) {
                return Err(format!("{id} stands in line at another place than its own"));
            }
            let parked = format!("@{}|{tenant}|{}|{task}", record.agent, record.place);
            if record.status == 'H' && !book.held.contains(&format!("{thread}|{turn}|{task}"))
                || record.status == 'P' && !book.held.contains(&parked)
            {
                return Err(format!("{id} is held at another place than its own"));
            }
            if record.status == 'Q' && !book.held.contains(&format!("q|{tenant}|{}|{task}", record.place)) {
                return Err(format!("{id} is in quarantine at another place than its own"));
            }
            if record.is_quarantined && record.status == 'W' || !record.is_quarantined && record.status == 'Q' {
                return Err(format!("{id} waits in the wrong lane"));
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

        let in_lane = |(_, record): &(&String, &Record)| record.is_quarantined && "RX".contains(record.status);
        let lane: HashSet<String> = book.records.iter().filter(in_lane).map(|(id, _)| id.clone()).collect();
        let told: HashSet<String> =
            book.lane.get(3).map(|ids| ids.split_whitespace().map(str::to_owned).collect()).unwrap_or_default();
        same("the quarantine lane", &told, &lane)?;
        // A live worker's adoption may come on top.
        if lane.len() > 1 && !self.is_lossy {
            return Err(format!("{lane:?} run in a lane for one"));
        }
        let quarantined = book.records.values().filter(|record| record.status == 'Q').count();
        let waiting_told = book.lane.first().and_then(|text| text.parse().ok()).unwrap_or(0);
        same("quarantined", waiting_told, quarantined)?;
        let agents = book.totals.get(16).cloned().unwrap_or_default();
        for (id, record) in &book.records {
            if record.status == 'P' && !agents.contains(&format!(" {} ", record.agent)) {
                return Err(format!("{id} is put aside although its agent is not paused"));
            }
        }
        let mut may_leave_quarantine = false;

        let total = |at: usize| book.totals.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        let [_, slots, used, weights, admitted, lined, held, paused, _, cap_usual] = std::array::from_fn(total);
        let mut weights_of_ring = 0.0;
        for (no, fields) in &book.tenants {
            same(format!("fields of tenant {no}"), fields.len(), 13)?;
            let number = |at: usize| fields[at].parse::<f64>().ok();
            let [tag, weight, gap] = [0, 1, 3].map(|at| number(at).unwrap());
            let cap = number(2).unwrap_or(cap_usual);
            let found: [i64; 4] = std::array::from_fn(|at| fields[4 + at].parse().unwrap());
            let expected = counts.remove(no).unwrap_or_default();
            let truth = [expected.admitted, expected.waiting, expected.lined, expected.running];
            same(format!("counts of tenant {no}"), found, truth)?;
            same(format!("delayed of tenant {no}"), fields[12].parse().unwrap(), expected.delayed)?;
            let [_, _, lined, running] = found;
            let is_allowed = fields[8] == "0" && (cap == 0.0 || (running as f64) < cap);
            let may_run = lined > 0 && is_allowed;
            let is_in_ring = book.ring.contains_key(no);
            same(format!("what tenant {no} says of the ring"), fields[9] == "1", is_in_ring)?;
            same(format!("tag of tenant {no} in the ring"), book.ring.get(no).copied(), is_in_ring.then_some(tag))?;
            if is_in_ring && !may_run {
                return Err(format!("tenant {no} is in the ring and may not run"));
            }
            if may_run && !is_in_ring && !(gap > 0.0 && book.paced.contains(no)) {
                return Err(format!("tenant {no} may run and is neither in the ring nor paced"));
            }
            weights_of_ring += if is_in_ring { weight } else { 0.0 };
            let waits = |(id, record): &(&String, &Record)| {
                record.status == 'Q'
                    && id.split('.').next() == Some(no.as_str())
                    && !agents.contains(&format!(" {} ", record.agent))
            };
            may_leave_quarantine |= is_allowed && gap == 0.0 && book.records.iter().any(|entry| waits(&entry));
        }
        counts.retain(|_, count| *count != Counts::default());
        same("tenants without a record", counts, HashMap::new())?;
        let size = |home: &str| book.homes[home].len() as f64;
        same("weights", weights, weights_of_ring)?;
        same("used slots", used, size("ready") + size("leases"))?;
        same("sums", [admitted, lined, held], [size("admitted") - later as f64, size("line"), size("held")])?;
        same("registered for later", total(15), later as f64)?;
        self.judge_audit().await?;
        if may_leave_quarantine && lane.is_empty() && used < slots && paused == 0.0 {
            return Err("the quarantine lane is empty while a task waits for it".to_owned());
        }
        if weights > 0.0 && used < slots && paused == 0.0 {
            return Err(format!("{used} of {slots} slots are used while a tenant may run"));
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

    /// What has just lost a worker waits for the quarantine lane, or went into it at once.
    pub(crate) async fn must_be_quarantined(&self, key: TaskKey) -> Law {
        let text: Option<String> = self.test.command(&["HGET", &self.test.key("tasks"), &key.to_string()]).await;
        match text.as_deref().map(record) {
            Some(record) if record.is_quarantined => Ok(()),
            _ => Err(format!("{key} lost a worker and is not in quarantine: {text:?}")),
        }
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
    assert!(fields.len() == 12 || fields[12..] == ["q"], "{text}");
    Record {
        status: fields[0].chars().next().unwrap(),
        user: fields[2].to_owned(),
        thread: fields[3].to_owned(),
        place: fields[4].to_owned(),
        turn: fields[5].to_owned(),
        entry: fields[8].to_owned(),
        agent: fields[11].to_owned(),
        is_quarantined: fields.len() > 12,
    }
}
