//! Runs many branches, a limited number at a time, deterministically.
//!
//! Branches are started in order and polled in order of their index, and only those that were
//! woken: what is polled when depends on deliveries alone, and 10,000 branches do not cost 10,000
//! polls a delivery. A branch that waits for nothing but a person leaves its turn to others, else a
//! few parked items would stop all that come after them. Once the person has spoken it counts again
//! and goes on at once, beyond the limit if need be.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::board::Board;

struct Woken {
    indices: Mutex<BTreeSet<usize>>,
    outer: Mutex<Option<Waker>>,
}

struct BranchWaker {
    index: usize,
    woken: Arc<Woken>,
}

impl Wake for BranchWaker {
    fn wake(self: Arc<Self>) {
        self.woken
            .indices
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(self.index);
        let outer = self
            .woken
            .outer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(outer) = outer {
            outer.wake();
        }
    }
}

/// The future of all branches.
pub(super) struct Each<B, Fut, R> {
    branches: B,
    exhausted: bool,
    limit: usize,
    next: usize,
    board: Arc<Board>,
    /// Branches under way, each with its place.
    active: BTreeMap<usize, (String, Pin<Box<Fut>>)>,
    /// Those of them that wait for nothing but a person: they hold up only themselves.
    resting: BTreeSet<usize>,
    results: BTreeMap<usize, R>,
    woken: Arc<Woken>,
}

// The pinned futures are boxed, so moving the struct moves none of them.
impl<B, Fut, R> Unpin for Each<B, Fut, R> {}

impl<B, Fut, R> Each<B, Fut, R>
where
    B: Iterator<Item = (String, Fut)>,
    Fut: Future<Output = R>,
{
    pub(super) fn new(limit: usize, board: Arc<Board>, branches: B) -> Self {
        Self {
            branches,
            exhausted: false,
            limit,
            next: 0,
            board,
            active: BTreeMap::new(),
            resting: BTreeSet::new(),
            results: BTreeMap::new(),
            woken: Arc::new(Woken {
                indices: Mutex::default(),
                outer: Mutex::default(),
            }),
        }
    }
}

impl<B, Fut, R> Future for Each<B, Fut, R>
where
    B: Iterator<Item = (String, Fut)>,
    Fut: Future<Output = R>,
{
    type Output = Vec<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<R>> {
        let this = &mut *self;
        *this
            .woken
            .outer
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        loop {
            let index = this
                .woken
                .indices
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_first();
            if let Some(index) = index {
                let Some((place, future)) = this.active.get_mut(&index) else {
                    continue;
                };
                let waker = Waker::from(Arc::new(BranchWaker {
                    index,
                    woken: this.woken.clone(),
                }));
                if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    this.active.remove(&index);
                    this.resting.remove(&index);
                    this.results.insert(index, result);
                } else if this.board.rests(place) {
                    this.resting.insert(index);
                } else {
                    this.resting.remove(&index);
                }
            } else if this.active.len() - this.resting.len() < this.limit && !this.exhausted {
                match this.branches.next() {
                    Some((place, future)) => {
                        let index = this.next;
                        this.next += 1;
                        this.active.insert(index, (place, Box::pin(future)));
                        this.woken
                            .indices
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .insert(index);
                    }
                    None => this.exhausted = true,
                }
            } else if this.active.is_empty() {
                return Poll::Ready(std::mem::take(&mut this.results).into_values().collect());
            } else {
                return Poll::Pending;
            }
        }
    }
}
