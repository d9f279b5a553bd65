//! Random interleavings of events, bells (lost, late), pages (stale), and readers that enter, read and join.

use proptest::prelude::*;

use super::*;
use crate::events::outbox::Word;

/// What happens next.
#[derive(Clone, Debug)]
enum Move {
    /// The worker writes; its bell carries the event or not.
    Write { carried: bool },
    /// The next bell under way is heard.
    Hear,
    /// The subscription breaks: bells under way are lost, and it is made anew.
    Break,
    /// The hub begins a read for the followers.
    HubReads,
    /// The hub takes the oldest page that it has read.
    HubTakes,
    /// Another reader comes, from the beginning or with the cursor of an event.
    Enter { at: usize },
    /// A reader that is entering begins to read a page.
    Read { reader: usize },
    /// It takes what it has read, and joins if it may.
    Take { reader: usize },
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        2 => any::<bool>().prop_map(|carried| Move::Write { carried }),
        2 => Just(Move::Hear),
        1 => Just(Move::Break),
        2 => Just(Move::HubReads),
        2 => Just(Move::HubTakes),
        1 => (0_usize..20).prop_map(|at| Move::Enter { at }),
        3 => (0_usize..3).prop_map(|reader| Move::Read { reader }),
        3 => (0_usize..3).prop_map(|reader| Move::Take { reader }),
    ]
}

struct Reader {
    ticket: Ticket,
    outbox: Arc<Outbox>,
    /// Events before its first.
    from: usize,
    progress: Option<Progress>,
    read: Option<(Heard, Vec<StoredEvent>)>,
    got: Vec<u64>,
}

struct World {
    watch: Watch,
    log: Vec<StoredEvent>,
    bells: std::collections::VecDeque<Bell>,
    pages: std::collections::VecDeque<Vec<StoredEvent>>,
    is_behind: bool,
    readers: Vec<Reader>,
    key: penstock_protocol::TaskKey,
}

const PAGE: usize = 4;

impl World {
    fn new() -> Self {
        let key = penstock_protocol::TaskKey::new(penstock_protocol::TenantNo(1), penstock_protocol::TaskId::mint());
        Self {
            watch: Watch::new(Instant::now()),
            log: Vec::new(),
            bells: [].into(),
            pages: [].into(),
            is_behind: false,
            readers: Vec::new(),
            key,
        }
    }

    fn page(&self, after: EventId) -> Vec<StoredEvent> {
        self.log.iter().filter(|stored| stored.id > after).take(PAGE).cloned().collect()
    }

    fn go(&mut self, next: Move) {
        match next {
            Move::Write { carried } => {
                let seq = self.log.len() as u64 + 1;
                // Attempts change now and then, so ids jump while numbers do not.
                let id = EventId { attempt: 1 + seq / 5, n: seq % 5 };
                let event = format!(r#"{{"type":"CUSTOM","name":"n","value":{seq}}}"#);
                self.log.push(StoredEvent { id, seq, event: event.clone() });
                self.bells.push_back(Bell { key: self.key, id, seq, event: carried.then_some(event) });
            }
            Move::Hear => {
                if let Some(bell) = self.bells.pop_front() {
                    self.is_behind |= self.watch.ring(bell, Instant::now()).read;
                }
            }
            Move::Break => {
                self.bells.clear();
                self.watch.lost_bells();
                self.is_behind = self.watch.is_served();
            }
            Move::HubReads => {
                if self.is_behind {
                    self.is_behind = false;
                    self.pages.push_back(self.page(self.watch.read_after()));
                }
            }
            Move::HubTakes => {
                if let Some(page) = self.pages.pop_front() {
                    self.is_behind |= self.watch.page(&page, page.len() == PAGE, Instant::now()).read;
                }
            }
            Move::Enter { at } => {
                if self.readers.len() == 3 {
                    return;
                }
                let from = at.min(self.log.len());
                let after = (from > 0).then(|| self.log[from - 1].id);
                self.watch.enter();
                self.readers.push(Reader {
                    ticket: self.readers.len() as Ticket,
                    outbox: Arc::new(Outbox::new(1 << 30)),
                    from,
                    progress: Some(Progress::new(after)),
                    read: None,
                    got: Vec::new(),
                });
            }
            Move::Read { reader } => {
                let Some(progress) = self.readers.get(reader).and_then(|reader| reader.progress.as_ref()) else {
                    return;
                };
                let read = (self.watch.heard(), self.page(progress.read_after()));
                self.readers[reader].read = Some(read);
            }
            Move::Take { reader } => {
                let Some(reader) = self.readers.get_mut(reader) else { return };
                let (Some(progress), Some((heard, page))) = (&mut reader.progress, reader.read.take()) else { return };
                for stored in &page {
                    match progress.take(stored) {
                        Step::Old => {}
                        Step::Pass(_, frame) => reader.got.push(frame.seq),
                        other => panic!("{other:?}"),
                    }
                }
                let follower = Follower::new(reader.ticket, Arc::clone(&reader.outbox), Instant::now());
                if page.len() < PAGE && self.watch.join(follower, progress, heard).is_ok() {
                    reader.progress = None;
                }
            }
        }
    }

    /// Everything under way arrives.
    fn settle(&mut self) {
        for _ in 0..200 {
            for reader in 0..self.readers.len() {
                self.go(Move::Read { reader });
                self.go(Move::Take { reader });
            }
            self.go(Move::Hear);
            self.go(Move::HubReads);
            self.go(Move::HubTakes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, ..ProptestConfig::default() })]

    #[test]
    fn every_reader_gets_every_event_once_and_in_order(moves in proptest::collection::vec(a_move(), 1..50)) {
        let mut world = World::new();
        for next in moves {
            world.go(next);
        }
        world.settle();
        let all = world.log.len() as u64;
        for mut reader in world.readers {
            prop_assert!(reader.progress.is_none(), "reader {} has joined", reader.ticket);
            while let Ok(Some((_, word))) = reader.outbox.try_take() {
                match word {
                    Word::Event(frame) => reader.got.push(frame.seq),
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            prop_assert_eq!(&reader.got, &(reader.from as u64 + 1..=all).collect::<Vec<_>>());
        }
    }
}
