//! The way of a job from a fan-out straight into the worker of the same process.
//!
//! A relay that finds room in its own process has the fan-out make some of its jobs as running
//! ones, under a lease of that process's session, and hands them to the worker: a claim less
//! between the commit of an event and its handler. It does so only where the worker waits, so that
//! no job that was due before is overtaken.
//!
//! How it fails: when the answer of such a fan-out is lost, jobs may run under the session that
//! nobody knows of; the worker is told and puts them back, as after a claim of its own. Invariants:
//! room is taken before the fan-out and given back for what it did not start; while a fan-out may
//! start jobs, the worker puts none back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedMutexGuard, mpsc};
use uuid::Uuid;

use crate::store::Claimed;

/// Most jobs that one fan-out starts: it waits for the disk then, and what is more than a few may
/// as well be claimed.
const START_MAX: usize = 64;

/// The room of one queue of a process: its limit, and how many of its jobs are unsettled or about
/// to be claimed.
#[derive(Debug)]
pub(crate) struct Room {
    limit: usize,
    taken: AtomicUsize,
    /// Whether the last claim found nothing that was due.
    is_drained: AtomicBool,
}

impl Room {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, taken: AtomicUsize::new(0), is_drained: AtomicBool::new(false) }
    }

    /// Takes up to `most` places; returns how many.
    pub(crate) fn take(&self, most: usize) -> usize {
        let mut got = 0;
        // What the closure returns last is what is stored, so `got` is of that try.
        let taking = |taken: usize| {
            got = self.limit.saturating_sub(taken).min(most);
            Some(taken + got)
        };
        let _ = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, taking);
        got
    }

    /// Takes half of what is free, at most `most`; returns how many. The other half stays for
    /// claims: a fan-out that hangs must not stop them.
    fn take_half(&self, most: usize) -> usize {
        let free = self.limit.saturating_sub(self.taken.load(Ordering::Acquire));
        self.take(most.min(free / 2))
    }

    /// Gives places back.
    pub(crate) fn give_back(&self, places: usize) {
        self.taken.fetch_sub(places, Ordering::AcqRel);
    }

    /// Whether there is none left.
    pub(crate) fn is_full(&self) -> bool {
        self.taken.load(Ordering::Acquire) >= self.limit
    }

    /// Notes whether the last claim found nothing that was due.
    pub(crate) fn set_drained(&self, is_drained: bool) {
        self.is_drained.store(is_drained, Ordering::Release);
    }
}

/// A queue with the subscriptions whose jobs may be started in it.
pub(crate) type OpenQueue = (Arc<Room>, Vec<i32>);

/// Where the relay and the worker of a process meet.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    desk: Mutex<Option<Desk>>,
    /// Whether jobs may run that the worker does not know of.
    answer_lost: AtomicBool,
    /// Held while a fan-out may start jobs, and while the worker puts back what it does not know.
    order: Arc<tokio::sync::Mutex<()>>,
}

/// The worker's side.
#[derive(Debug)]
struct Desk {
    session: Uuid,
    queues: Vec<OpenQueue>,
    jobs: mpsc::UnboundedSender<Vec<Claimed>>,
}

impl Handover {
    /// The worker of `session` takes jobs from now on; they come out of the returned receiver.
    pub(crate) fn open(
        &self,
        session: Uuid,
        queues: Vec<OpenQueue>,
    ) -> mpsc::UnboundedReceiver<Vec<Claimed>> {
        let (jobs, handed) = mpsc::unbounded_channel();
        *self.desk() = Some(Desk { session, queues, jobs });
        handed
    }

    /// The worker of `session` takes no more.
    pub(crate) fn close(&self, session: Uuid) {
        let mut desk = self.desk();
        if desk.as_ref().is_some_and(|desk| desk.session == session) {
            *desk = None;
        }
    }

    /// Takes room for a fan-out, if the worker waits for jobs.
    pub(crate) fn offer(self: &Arc<Self>) -> Option<Offer> {
        let desk = self.desk();
        let desk = desk.as_ref()?;
        let order = Arc::clone(&self.order).try_lock_owned().ok()?;
        let waiting =
            desk.queues.iter().filter(|(room, _)| room.is_drained.load(Ordering::Acquire));
        let taken: Vec<Taken> = waiting
            .map(|(room, subscriptions)| Taken {
                places: room.take_half(START_MAX),
                room: Arc::clone(room),
                subscriptions: subscriptions.clone(),
            })
            .filter(|taken| taken.places > 0)
            .collect();
        // The limit is one for all queues, so each must have room for it.
        let most = taken.iter().map(|taken| taken.places).min()?;
        Some(Offer {
            session: desk.session,
            most: i64::try_from(most).unwrap_or(0),
            subscriptions: taken.iter().flat_map(|taken| taken.subscriptions.clone()).collect(),
            taken,
            jobs: desk.jobs.clone(),
            handover: Arc::clone(self),
            is_answered: false,
            _order: order,
        })
    }

    /// Whether jobs may run that the worker does not know of; asked once.
    pub(crate) fn answer_was_lost(&self) -> bool {
        self.answer_lost.swap(false, Ordering::AcqRel)
    }

    /// While this is held, no fan-out starts jobs; `None` while one does.
    pub(crate) fn try_hold(&self) -> Option<OwnedMutexGuard<()>> {
        Arc::clone(&self.order).try_lock_owned().ok()
    }

    fn desk(&self) -> std::sync::MutexGuard<'_, Option<Desk>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room that was taken in one queue.
#[derive(Debug)]
struct Taken {
    room: Arc<Room>,
    subscriptions: Vec<i32>,
    places: usize,
}

/// Room for jobs that a fan-out may start. Dropped without an answer, it tells the worker that jobs
/// may run that nobody knows of.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) session: Uuid,
    /// Most jobs that may be started, of `subscriptions` alone.
    pub(crate) most: i64,
    pub(crate) subscriptions: Vec<i32>,
    taken: Vec<Taken>,
    jobs: mpsc::UnboundedSender<Vec<Claimed>>,
    handover: Arc<Handover>,
    is_answered: bool,
    _order: OwnedMutexGuard<()>,
}

impl Offer {
    /// Hands over what was started, which may be nothing.
    pub(crate) fn hand_over(mut self, started: Vec<Claimed>) {
        self.is_answered = true;
        for taken in &mut self.taken {
            let is_here = |job: &&Claimed| taken.subscriptions.contains(&job.subscription_id);
            let unused = taken.places.saturating_sub(started.iter().filter(is_here).count());
            taken.room.give_back(unused);
            taken.places = 0;
        }
        if !started.is_empty() {
            // A worker that is gone has a session that ends, and its jobs are rescued.
            let _ = self.jobs.send(started);
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        for taken in &self.taken {
            taken.room.give_back(taken.places);
        }
        if !self.is_answered {
            self.handover.answer_lost.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(limit: usize) -> Arc<Room> {
        let room = Arc::new(Room::new(limit));
        room.set_drained(true);
        room
    }

    #[test]
    fn room_is_taken_up_to_the_limit_and_given_back() {
        let room = Room::new(5);
        assert_eq!((room.take(3), room.take(3), room.take(3)), (3, 2, 0));
        assert!(room.is_full());
        room.give_back(4);
        assert_eq!(room.take(9), 4);
    }

    #[test]
    fn an_offer_is_half_of_the_smallest_waiting_queue_and_gives_back_what_is_not_used() {
        let handover = Arc::new(Handover::default());
        assert!(handover.offer().is_none(), "no worker takes jobs");
        let (wide, narrow, busy) = (drained(100), drained(7), Arc::new(Room::new(9)));
        let queues =
            vec![(Arc::clone(&wide), vec![1, 2]), (Arc::clone(&narrow), vec![3]), (busy, vec![4])];
        let session = Uuid::from_u128(7);
        let _handed = handover.open(session, queues);
        let offer = handover.offer().expect("two queues wait");
        assert_eq!((offer.most, offer.subscriptions.clone()), (3, vec![1, 2, 3]));
        assert!(handover.offer().is_none(), "one at a time");
        assert_eq!((wide.take(200), narrow.take(200)), (50, 4), "claims have the other half");
        wide.give_back(50);
        narrow.give_back(4);
        offer.hand_over(Vec::new());
        assert_eq!((wide.take(200), narrow.take(200)), (100, 7));
        assert!(handover.offer().is_none(), "nothing has room");
        assert!(!handover.answer_was_lost());
        wide.give_back(100);
        narrow.give_back(7);
        handover.close(Uuid::from_u128(8));
        drop(handover.offer().expect("another session's end closes nothing"));
        assert!(handover.answer_was_lost(), "dropped without an answer");
        assert!(!handover.answer_was_lost());
        assert_eq!((wide.take(200), narrow.take(200)), (100, 7));
        handover.close(session);
        narrow.give_back(7);
        assert!(handover.offer().is_none());
    }
}
