//! Random interleavings of everything that touches a queue, with the real MySQL statements beside it.
//!
//! Doors, workers, a reaper, a reconciler and clients take random steps; they crash, freeze, repeat and come late; keys
//! and whole Redis are lost. After each step the laws are judged from what Redis and MySQL hold. The mutants at the end
//! show that a broken verb would be noticed.
//!
//! `PENSTOCK_TEST_STEPS` (default 10 000 a run) and `PENSTOCK_TEST_SEED` (a number to begin with) ask for more.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on must fail, and tells its story"
)]

mod door;
mod law;
mod mutant;
mod operator;
mod patience;
mod random;
mod recovery;
mod replay;
mod worker;
mod world;

use std::time::{Duration, Instant};

use patience::sql;
use penstock_queue::{Library, library_source};
use world::{Law, World};

/// Runs in the normal mode are bounded by time as well, so that a loaded machine is not taken for a broken law.
const RUN_MAX: Duration = Duration::from_secs(40);

async fn run(seed: u64, steps: usize, time_max: Duration, library: Library) -> (Law, World, usize) {
    let mut world = World::new(seed, library).await;
    // Every third run loses nothing, and there every end must be told.
    world.is_lossy = !seed.is_multiple_of(3);
    for _ in 0..3 {
        world.hire();
    }
    let begun = Instant::now();
    let mut done = 0;
    let mut law = Ok(());
    while done < steps && begun.elapsed() < time_max && law.is_ok() {
        law = step(&mut world).await;
        done += 1;
    }
    if law.is_ok() {
        law = rest(&mut world).await;
    }
    (law, world, done)
}

/// One step of somebody, and the judgement.
async fn step(world: &mut World) -> Law {
    let passes = if world.random.chance(2) { world.random.next() % 20_000 } else { world.random.next() % 300 };
    world.pass(passes);
    match world.random.below(100) {
        0..10 => world.submit().await?,
        10..25 => world.go_on_at_a_door().await?,
        25..77 => world.work().await?,
        77..79 => world.cancel().await?,
        79..81 => world.reap().await?,
        81..84 => world.reconcile().await?,
        84..91 => world.rebuild().await?,
        91 => world.operate(),
        92 => world.bring_in_line().await?,
        93..97 => world.replay().await?,
        97 => world.freeze_or_crash(),
        98 if world.is_lossy && world.random.chance(25) => world.lose_something().await,
        _ => world.test.queue.tick().await.unwrap(),
    }
    judge(world).await
}

async fn judge(world: &mut World) -> Law {
    if !world.is_broken {
        world.judge_book().await?;
    }
    world.judge_streams().await
}

/// No more accidents: everything accepted comes to its end.
async fn rest(world: &mut World) -> Law {
    world.is_calm = true;
    world.let_go_on();
    for worker in &mut world.workers {
        worker.frozen_until_ms = 0;
    }
    for round in 0..3000 {
        world.pass(400);
        world.go_on_at_a_door().await?;
        for _ in 0..4 {
            world.work().await?;
        }
        // Every entry that was read counts as lost in virtual time: leave the living ones time to start it.
        if round % 40 == 39 {
            world.reap().await?;
        }
        world.reconcile().await?;
        world.rebuild().await?;
        world.bring_in_line().await?;
        world.test.queue.tick().await.unwrap();
        judge(world).await?;
        let is_open = !sql!(world, open_counts()).is_empty();
        if !is_open && world.doors.is_empty() && world.rebuilds.is_empty() && world.record_count().await == 0 {
            return world.judge_rest().await;
        }
    }
    let open = sql!(world, open_tasks(None, 10));
    let open: Vec<_> = open.iter().map(|row| format!("{} {}", row.key, row.status.as_str())).collect();
    Err(format!("the world did not come to rest: {open:?}, {} records", world.record_count().await))
}

impl World {
    fn freeze_or_crash(&mut self) {
        let at = self.random.below(self.workers.len());
        if self.random.chance(60) {
            let for_ms = 1_000 + self.random.next() % 40_000;
            self.workers[at].frozen_until_ms = self.clock.now_ms() + for_ms;
            let text = format!("{} freezes for {for_ms} ms", self.workers[at].id);
            self.note(text);
        } else {
            let dead = self.workers.swap_remove(at);
            self.note(format!("{} crashes", dead.id));
            self.hire();
        }
    }

    /// Redis loses one key, the group, an old stream, or everything.
    async fn lose_something(&mut self) {
        const KEYS: [&str; 17] = [
            "admitted", "line", "ring", "held", "ready", "delayed", "tasks", "tenants", "users", "threads", "leases",
            "workers", "wslots", "stats", "done", "meta", "paced",
        ];
        match self.random.below(10) {
            0 | 1 => {
                self.note("flush");
                for name in KEYS {
                    let _: i64 = self.test.command(&["DEL", &self.test.key(name)]).await;
                }
                for key in self.order.clone() {
                    self.delete_stream(key).await;
                }
                self.is_broken = true;
            }
            2 => {
                let ready = self.test.key("ready");
                let gone: i64 = self.test.command(&["EXISTS", &ready]).await;
                if gone == 1 {
                    let _: i64 = self.test.command(&["XGROUP", "DESTROY", &ready, "workers"]).await;
                }
                self.note("the group is destroyed");
            }
            3..6 if !self.order.is_empty() => {
                let key = self.order[self.random.below(self.order.len())];
                self.delete_stream(key).await;
            }
            _ => {
                let name = KEYS[self.random.below(KEYS.len())];
                let gone: i64 = self.test.command(&["DEL", &self.test.key(name)]).await;
                self.note(format!("{name} is lost: {gone}"));
                self.is_broken |= gone == 1 && !["workers", "wslots", "meta"].contains(&name);
            }
        }
    }

    async fn delete_stream(&mut self, key: penstock_protocol::TaskKey) {
        let gone: i64 = self.test.command(&["DEL", &self.test.queue.shard().events(key)]).await;
        if gone == 1 {
            self.note(format!("the stream of {key} is lost"));
            self.lose_events(key);
        }
    }

    async fn delete(self) {
        for key in &self.order {
            let _: i64 = self.test.command(&["DEL", &self.test.queue.shard().events(*key)]).await;
        }
        self.test.delete().await;
        self.database.drop_database().await;
    }
}

fn number(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "a person asks for a longer run")]
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_law_holds_under_random_interleavings() {
    let steps = usize::try_from(number("PENSTOCK_TEST_STEPS").unwrap_or(10_000)).unwrap();
    let time_max = if number("PENSTOCK_TEST_STEPS").is_some() { Duration::from_secs(36_000) } else { RUN_MAX };
    let first = number("PENSTOCK_TEST_SEED").unwrap_or_else(penstock_protocol::clock::wall_ms);
    let runs = (0..3_u64).map(|run| {
        let seed = first.wrapping_add(run);
        tokio::spawn(async move {
            let library = Library::new(&library_source());
            let (law, world, done) = run_and_tell(seed, steps, time_max, library).await;
            let accepted = world.known.values().filter(|known| known.is_accepted).count();
            println!("from {seed}: {done} steps, {} requests, {accepted} tasks", world.order.len());
            world.delete().await;
            law
        })
    });
    for run in futures_util::future::join_all(runs).await {
        run.unwrap().unwrap();
    }
}

async fn run_and_tell(seed: u64, steps: usize, time_max: Duration, library: Library) -> (Law, World, usize) {
    let (law, world, done) = run(seed, steps, time_max, library).await;
    if let Err(law) = &law {
        let key = world.order.iter().find(|key| law.contains(&key.to_string())).map(ToString::to_string);
        let story: Vec<_> = match &key {
            Some(key) => world
                .trace
                .iter()
                .filter(|line| {
                    line.contains(key)
                        || line.contains("lost")
                        || line.contains("flush")
                        || line.contains("wipe")
                        || line.contains("open")
                })
                .collect(),
            None => world.trace.iter().rev().take(40).rev().collect(),
        };
        println!("PENSTOCK_TEST_SEED={seed}, step {done}: {law}");
        for line in story.iter().rev().take(80).rev() {
            println!("  {line}");
        }
    }
    (law, world, done)
}

/// A mutant that lives this long is not caught.
const MUTANT_STEPS: usize = 6_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_broken_verb_is_noticed() {
    use futures_util::StreamExt;
    let hunts = mutant::MUTANTS.iter().map(|mutant| async move {
        for seed in 1..=8 {
            let (law, world, done) = run(seed, MUTANT_STEPS, RUN_MAX, mutant.library()).await;
            world.delete().await;
            if let Err(law) = law {
                println!("{}: noticed in run {seed} at step {done}: {law}", mutant.name);
                return None;
            }
        }
        Some(mutant.name)
    });
    let survivors: Vec<_> =
        futures_util::stream::iter(hunts).buffer_unordered(3).filter_map(|name| async move { name }).collect().await;
    assert!(survivors.is_empty(), "not noticed: {survivors:?}");
}
