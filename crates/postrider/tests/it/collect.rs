//! A handler that passes on what it gets.

use std::future::{Ready, ready};

use postrider::Delivery;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::fixture::PATIENCE;

/// What handlers got, in the order in which they ran.
pub(crate) struct Collected(UnboundedReceiver<Delivery>);

/// A handler and what it gets.
pub(crate) fn collector() -> (impl Fn(Delivery) -> Ready<()> + Send + Sync + 'static, Collected) {
    let (sender, receiver) = unbounded_channel();
    let handler = move |delivery: Delivery| {
        // The test may be over already.
        let _ = sender.send(delivery);
        ready(())
    };
    (handler, Collected(receiver))
}

impl Collected {
    /// The next delivery.
    #[track_caller]
    pub(crate) fn next(&mut self) -> impl Future<Output = Delivery> {
        let place = std::panic::Location::caller();
        async move {
            match tokio::time::timeout(PATIENCE, self.0.recv()).await {
                Ok(Some(delivery)) => delivery,
                Ok(None) => panic!("the engine is gone (at {place})"),
                Err(_) => panic!("nothing was delivered within {PATIENCE:?} (at {place})"),
            }
        }
    }
}
