//! How many readers a process and a key may have at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::auth::KeyId;

/// The seats of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Seats(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    taken: Mutex<Taken>,
    all_max: usize,
    per_key_max: usize,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_key: HashMap<KeyId, usize>,
}

/// One reader's place; given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    key: KeyId,
}

/// Why there is no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The process has no more.
    Process,
    /// The key has as many as it may.
    Key,
}

impl Seats {
    pub(super) fn new(all_max: usize, per_key_max: usize) -> Self {
        Self(Arc::new(Inner { taken: Mutex::default(), all_max, per_key_max }))
    }

    pub(super) fn per_key_max(&self) -> usize {
        self.0.per_key_max
    }

    /// Takes a seat for `key`.
    pub(super) fn take(&self, key: KeyId) -> Result<Seat, Full> {
        let mut taken = self.lock();
        if taken.all >= self.0.all_max {
            return Err(Full::Process);
        }
        let own = taken.by_key.entry(key).or_default();
        if *own >= self.0.per_key_max {
            return Err(Full::Key);
        }
        *own += 1;
        taken.all += 1;
        Ok(Seat { seats: self.clone(), key })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        taken.all = taken.all.saturating_sub(1);
        if let Some(own) = taken.by_key.get_mut(&self.key) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.by_key.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_the_process_have_their_own_bounds_and_seats_come_back() {
        let seats = Seats::new(3, 2);
        let (first, _second) = (seats.take(KeyId(1)).unwrap(), seats.take(KeyId(1)).unwrap());
        assert_eq!(seats.take(KeyId(1)).unwrap_err(), Full::Key);
        let _third = seats.take(KeyId(2)).unwrap();
        assert_eq!(seats.take(KeyId(2)).unwrap_err(), Full::Process);
        drop(first);
        assert!(seats.take(KeyId(1)).is_ok());
        assert_eq!(seats.0.taken.lock().unwrap().all, 2);
    }
}
