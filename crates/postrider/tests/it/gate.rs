//! A gate that holds handlers until a test lets them go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider::Delivery;
use tokio::sync::Semaphore;

/// Handlers wait here; it counts those that are inside.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    permits: Arc<Semaphore>,
    inside: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Gate {
    pub(crate) fn closed() -> Self {
        Self { permits: Arc::new(Semaphore::new(0)), inside: Arc::default(), most: Arc::default() }
    }

    /// Lets everybody pass from now on.
    pub(crate) fn open(&self) {
        self.let_pass(100_000);
    }

    /// Lets `count` handlers pass.
    pub(crate) fn let_pass(&self, count: usize) {
        self.permits.add_permits(count);
    }

    /// Lets nobody pass any more.
    pub(crate) fn close(&self) {
        self.permits.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Waits to be let go.
    pub(crate) async fn pass(&self) {
        let inside = self.inside.fetch_add(1, Ordering::AcqRel) + 1;
        self.most.fetch_max(inside, Ordering::AcqRel);
        self.permits.acquire().await.unwrap().forget();
        self.inside.fetch_sub(1, Ordering::AcqRel);
    }

    /// The largest number of handlers that were inside at once.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Acquire)
    }

    /// A handler that does nothing but pass.
    pub(crate) fn handler(
        &self,
    ) -> impl Fn(Delivery) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Clone + use<>
    {
        let gate = self.clone();
        move |_| {
            let gate = gate.clone();
            Box::pin(async move { gate.pass().await })
        }
    }
}
