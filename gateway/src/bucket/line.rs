//! The line of one exit in this process: fair by tenant, first come first served inside a tenant. Only its head asks Redis.
//!
//! Law 13: a tenant with a thousand waiting calls delays another's first call by one call, not by a thousand. It is start-time
//! fair: the tenant with the smallest tag is next; a grant moves its tag by the cost; a tenant that comes anew begins at the
//! present tag, so idling earns nothing. A head stays head until it is granted or leaves.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_protocol::TenantNo;
use tokio::sync::oneshot;

/// Tags of tenants without a waiting call are kept while they are ahead of the present, at most so many.
const TAGS_KEPT_MAX: usize = 1_024;

/// The line of one exit.
#[derive(Debug)]
pub(crate) struct Line {
    waiting_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    head: Option<u64>,
    waiting: usize,
    next_number: u64,
    /// Tag of the tenant served last.
    present: u64,
    tenants: HashMap<TenantNo, Tenant>,
    /// Tenants with a waiting call by tag, then by the number of their first call.
    order: BTreeSet<(u64, u64, TenantNo)>,
}

#[derive(Debug, Default)]
struct Tenant {
    tag: u64,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    turn: oneshot::Sender<()>,
}

/// A place in the line. Dropped, it is free for the next.
#[derive(Debug)]
pub(crate) struct Place {
    line: Arc<Line>,
    tenant: TenantNo,
    number: u64,
    /// `None` once it is the head.
    turn: Option<oneshot::Receiver<()>>,
}

impl Line {
    pub(crate) fn new(waiting_max: usize) -> Self {
        Self { waiting_max, state: Mutex::default() }
    }

    /// The last place of `tenant`; `None`: the line is full.
    pub(crate) fn join(self: &Arc<Self>, tenant: TenantNo) -> Option<Place> {
        let mut state = self.state();
        let number = state.next_number;
        if state.head.is_some() && state.waiting >= self.waiting_max {
            return None;
        }
        state.next_number += 1;
        let turn = if state.head.is_none() {
            // Nobody waits while there is no head.
            state.head = Some(number);
            state.enter(tenant);
            None
        } else {
            let (turn, waits) = oneshot::channel();
            state.push(tenant, Waiter { number, turn });
            Some(waits)
        };
        Some(Place { line: Arc::clone(self), tenant, number, turn })
    }

    /// Whether nobody is asking.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().head.is_none()
    }

    /// Calls that wait behind the head.
    pub(crate) fn waiting_count(&self) -> usize {
        self.state().waiting
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until this place is the head. Cancel-safe.
    pub(crate) async fn head(&mut self) {
        if let Some(turn) = &mut self.turn {
            // The sender is dropped only with the line itself, which this place holds.
            drop(turn.await);
            self.turn = None;
        }
    }

    /// Leaves with a grant of `cost`, which its tenant is charged with.
    pub(crate) fn granted(self, cost: u64) {
        self.line.state().charge(self.tenant, cost);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.line.state();
        if state.head == Some(self.number) {
            state.head = None;
            state.call_next();
        } else {
            state.remove(self.tenant, self.number);
        }
    }
}

impl State {
    /// A tenant who comes anew begins at the present tag, or where it owes.
    fn enter(&mut self, no: TenantNo) -> &mut Tenant {
        let tenant = self.tenants.entry(no).or_default();
        if tenant.waiting.is_empty() {
            tenant.tag = tenant.tag.max(self.present);
        }
        tenant
    }

    fn push(&mut self, no: TenantNo, waiter: Waiter) {
        let number = waiter.number;
        let tenant = self.enter(no);
        tenant.waiting.push_back(waiter);
        if tenant.waiting.len() == 1 {
            let tag = tenant.tag;
            self.order.insert((tag, number, no));
        }
        self.waiting += 1;
    }

    fn call_next(&mut self) {
        while let Some((tag, first, no)) = self.order.pop_first() {
            let Some(tenant) = self.tenants.get_mut(&no) else { continue };
            let Some(waiter) = tenant.waiting.pop_front() else { continue };
            debug_assert_eq!((tag, first), (tenant.tag, waiter.number));
            self.waiting -= 1;
            if let Some(second) = tenant.waiting.front() {
                self.order.insert((tenant.tag, second.number, no));
            }
            if waiter.turn.send(()).is_ok() {
                self.head = Some(waiter.number);
                return;
            }
        }
    }

    fn charge(&mut self, no: TenantNo, cost: u64) {
        let tenant = self.tenants.entry(no).or_default();
        let start = tenant.tag;
        tenant.tag = start.saturating_add(cost);
        if let Some(first) = tenant.waiting.front() {
            self.order.remove(&(start, first.number, no));
            self.order.insert((tenant.tag, first.number, no));
        }
        self.present = self.present.max(start);
        if self.tenants.len() > TAGS_KEPT_MAX {
            self.forget();
        }
    }

    /// Forgets tenants who owe nothing; if that is not enough, those who owe least.
    fn forget(&mut self) {
        let present = self.present;
        self.tenants.retain(|_, tenant| !tenant.waiting.is_empty() || tenant.tag > present);
        let mut idle: Vec<_> = self.tenants.iter().filter(|(_, tenant)| tenant.waiting.is_empty()).collect();
        let excess = idle.len().saturating_sub(TAGS_KEPT_MAX / 2);
        idle.sort_unstable_by_key(|(_, tenant)| tenant.tag);
        let least: Vec<_> = idle.into_iter().take(excess).map(|(no, _)| *no).collect();
        for no in least {
            self.tenants.remove(&no);
        }
    }

    fn remove(&mut self, no: TenantNo, number: u64) {
        let Some(tenant) = self.tenants.get_mut(&no) else { return };
        let Some(at) = tenant.waiting.iter().position(|waiter| waiter.number == number) else { return };
        tenant.waiting.remove(at);
        self.waiting -= 1;
        if at == 0 {
            self.order.remove(&(tenant.tag, number, no));
            if let Some(first) = tenant.waiting.front() {
                self.order.insert((tenant.tag, first.number, no));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Arc<Line> {
        Arc::new(Line::new(1_000))
    }

    fn is_head(place: &mut Place) -> bool {
        match &mut place.turn {
            None => true,
            Some(turn) => {
                let called = turn.try_recv().is_ok();
                if called {
                    place.turn = None;
                }
                called
            }
        }
    }

    /// Serves everybody; gives the names in the order of service.
    fn serve(mut places: Vec<(&'static str, u64, Place)>) -> Vec<&'static str> {
        let mut order = Vec::new();
        while !places.is_empty() {
            let at = places.iter_mut().position(|(_, _, place)| is_head(place)).expect("the line has a head");
            let (name, cost, place) = places.remove(at);
            order.push(name);
            place.granted(cost);
        }
        order
    }

    #[test]
    fn one_tenant_is_served_in_order() {
        let line = line();
        let names = ["1", "2", "3", "4"];
        let places = names.map(|name| (name, 10, line.join(TenantNo(1)).unwrap()));
        assert_eq!(serve(places.into()), names);
        assert!(line.is_empty() && line.waiting_count() == 0);
    }

    #[test]
    fn a_crowd_of_one_tenant_delays_another_by_one_call() {
        let line = line();
        let mut places: Vec<_> = (0..50).map(|_| ("crowd", 10, line.join(TenantNo(1)).unwrap())).collect();
        places.push(("quiet", 10, line.join(TenantNo(2)).unwrap()));
        let order = serve(places);
        assert_eq!(order.iter().position(|name| *name == "quiet"), Some(1));
    }

    #[test]
    fn large_calls_count_for_what_they_cost() {
        let line = line();
        let mut places = Vec::new();
        for _ in 0..3 {
            places.push(("large", 30_000, line.join(TenantNo(1)).unwrap()));
        }
        for _ in 0..100 {
            places.push(("small", 500, line.join(TenantNo(2)).unwrap()));
        }
        let order = serve(places);
        let larges: Vec<_> = order.iter().enumerate().filter(|(_, name)| **name == "large").map(|(at, _)| at).collect();
        assert_eq!(larges[0], 0);
        assert!((55..=65).contains(&(larges[1] - larges[0])), "{larges:?}");
    }

    #[test]
    fn who_leaves_is_passed_over_wherever_he_stood() {
        let line = line();
        let mut places: Vec<_> = ["a", "b", "c", "d"].map(|name| (name, 1, line.join(TenantNo(1)).unwrap())).into();
        drop(places.remove(2));
        drop(places.remove(0));
        assert_eq!(serve(places), ["b", "d"]);
        assert!(line.is_empty());
    }

    #[test]
    fn idling_earns_nothing() {
        let line = line();
        for _ in 0..100 {
            line.join(TenantNo(1)).unwrap().granted(10);
        }
        let mut places = vec![("head", 10, line.join(TenantNo(1)).unwrap())];
        for _ in 0..5 {
            places.push(("late", 10, line.join(TenantNo(2)).unwrap()));
            places.push(("busy", 10, line.join(TenantNo(1)).unwrap()));
        }
        let order = serve(places);
        assert!(order[..4].contains(&"busy"), "the one who idled has no credit: {order:?}");
    }

    #[test]
    fn the_line_is_bounded() {
        let line = Arc::new(Line::new(2));
        let _places: Vec<_> = (0..3).map(|_| line.join(TenantNo(1)).unwrap()).collect();
        assert!(line.join(TenantNo(2)).is_none());
    }

    #[test]
    fn tenants_are_forgotten_before_they_are_too_many() {
        let line = line();
        for no in 0..10_000 {
            line.join(TenantNo(no)).unwrap().granted(1_000_000 - u64::from(no));
        }
        assert!(line.state().tenants.len() <= TAGS_KEPT_MAX + 1);
    }
}
