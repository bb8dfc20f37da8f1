//! Runs many branches, a limited number at a time, deterministically.
//!
//! Branches are started in order and polled in order of their index, and only those that were
//! woken: what is polled when depends on deliveries alone, and 10,000 branches do not cost 10,000
//! polls a delivery.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

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
    active: BTreeMap<usize, Pin<Box<Fut>>>,
    results: BTreeMap<usize, R>,
    woken: Arc<Woken>,
}

// The pinned futures are boxed, so moving the struct moves none of them.
impl<B, Fut, R> Unpin for Each<B, Fut, R> {}

impl<B, Fut, R> Each<B, Fut, R>
where
    B: Iterator<Item = Fut>,
    Fut: Future<Output = R>,
{
    pub(super) fn new(limit: usize, branches: B) -> Self {
        Self {
            branches,
            exhausted: false,
            limit,
            next: 0,
            active: BTreeMap::new(),
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
    B: Iterator<Item = Fut>,
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
                let Some(future) = this.active.get_mut(&index) else {
                    continue;
                };
                let waker = Waker::from(Arc::new(BranchWaker {
                    index,
                    woken: this.woken.clone(),
                }));
                if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    this.active.remove(&index);
                    this.results.insert(index, result);
                }
            } else if this.active.len() < this.limit && !this.exhausted {
                match this.branches.next() {
                    Some(future) => {
                        let index = this.next;
                        this.next += 1;
                        this.active.insert(index, Box::pin(future));
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
