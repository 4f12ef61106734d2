//! Drops librdkafka clients on a background thread, because closing one blocks for about 100 ms.

use std::ops::Deref;
use std::thread;

use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;

/// Client that reads settings and creates topics.
pub(crate) type Admin = BackgroundDrop<AdminClient<DefaultClientContext>>;

/// A client whose end nobody waits for: it takes a tenth of a second, since its threads check no more often whether
/// they should end.
pub(crate) struct BackgroundDrop<C: Send + 'static>(Option<C>);

impl<C: Send + 'static> BackgroundDrop<C> {
    pub(crate) fn new(client: C) -> Self {
        Self(Some(client))
    }
}

impl<C: Send + 'static> Deref for BackgroundDrop<C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<C: Send + 'static> Drop for BackgroundDrop<C> {
    fn drop(&mut self) {
        let client = self.0.take();
        let ending = thread::Builder::new().name("semel-kafka-end".into());
        // Without a thread it ends here.
        let _ = ending.spawn(move || drop(client));
    }
}
