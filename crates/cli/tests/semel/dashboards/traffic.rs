//! A worker under traffic that has some of everything: a pipeline of payments on a store that goes away for a while,
//! and one that puts out each message of a topic once.

use std::io::{PipeWriter, Write};
use std::time::Duration;

use rustix::process::Signal;
use semel_broker_kafka::{KafkaSink, SinkOptions};
use semel_core::port::sink::{Publication, Sink};

use crate::brokers::kafka::Topic;
use crate::brokers::{Place, Way, runtime};
use crate::metrics::HANDLER;
use crate::ready::Admin;
use crate::redis::Prefix;
use crate::servers::place_of;
use crate::site::{Running, Site, lines, wait_for};

pub(super) struct Traffic {
    site: Site,
    admin: Admin,
    topic: Topic,
    store: Way,
    worker: Option<(Running, PipeWriter)>,
    /// The number of batches that were fed.
    fed: u32,
    _prefix: Prefix,
}

impl Traffic {
    pub(super) fn new(admin: Admin) -> Self {
        let (topic, output) = (Topic::new(), Topic::new());
        let prefix = Prefix::new();
        let server = format!("redis://{}", place_of(&prefix.url()));
        let (store, through) = Way::to(&server);
        let url = prefix.url().replace(&server, &through);
        let brokers = Topic::address();
        let config = format!(
            "[store]\nurl = \"{url}\"\n{}\
             [pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\npause_after = 0\n\
             cache = {{ size = \"1MiB\" }}\nretry = {{ attempts = 3, backoff = \"1ms\" }}\n\
             [pipelines.pay.effect]\nkind = \"exec\"\nprotocol = \"jsonl\"\n\
             command = [\"python3\", \"handler.py\"]\nclass = \"unkeyed\"\non_doubt = \"park\"\n\
             [pipelines.clean]\nkey = \"json:/id\"\nbatch = 20\nwindow = \"30d\"\n\
             [pipelines.clean.source]\nkind = \"kafka\"\nbrokers = \"{brokers}\"\ntopic = \"{}\"\ngroup = \"{}\"\n\
             [pipelines.clean.source.properties]\n\"group.instance.id\" = \"one\"\n\"session.timeout.ms\" = \"6000\"\n\
             [pipelines.clean.effect]\nkind = \"kafka\"\nclass = \"streamed\"\nbrokers = \"{brokers}\"\ntopic = \"{}\"\n",
            admin.table(),
            topic.0,
            topic.0,
            output.0,
        );
        let site = Site::with(&[("semel.toml", &config), ("handler.py", HANDLER)]);
        Self {
            site,
            admin,
            topic,
            store,
            worker: None,
            fed: 0,
            _prefix: prefix,
        }
    }

    /// Lets traffic flow for about so long. The worker is started anew after a quarter, and its store is away for two
    /// seconds after a half.
    pub(super) fn flow(&mut self, lasts: Duration) {
        self.start();
        self.publish();
        self.feed_for(lasts / 4);
        self.end();
        self.start();
        self.publish();
        self.feed_for(lasts / 4);
        self.store.refuse(true);
        self.store.cut_now();
        self.feed_for(Duration::from_secs(1));
        wait_for("a worker that is not ready", || !self.admin.ready().0);
        // For long enough to be scraped.
        self.feed_for(Duration::from_millis(1_500));
        self.store.refuse(false);
        wait_for("a worker that is ready again", || self.admin.ready().0);
        self.publish();
        self.feed_for(lasts / 2);
    }

    /// Asks the worker to end, which it does well.
    pub(super) fn end(&mut self) {
        if let Some((running, messages)) = self.worker.take() {
            running.signal(Signal::TERM);
            drop(messages);
            running.wait().done();
        }
    }

    fn start(&mut self) {
        let (input, messages) = std::io::pipe().expect("a pipe");
        let mut command = self.site.command();
        command.args(["run", "--output", "json"]).stdin(input);
        let mut running = Running::start(&mut command);
        wait_for("a worker that is ready", || {
            assert!(running.is_running(), "{}", running.stderr());
            self.admin.ready().0
        });
        self.worker = Some((running, messages));
    }

    /// Feeds a batch five times a second.
    fn feed_for(&mut self, lasts: Duration) {
        let pause = Duration::from_millis(200);
        for _ in 0..lasts.as_millis().div_ceil(pause.as_millis()) {
            self.feed();
            std::thread::sleep(pause);
        }
    }

    /// Feeds ten payments and three of them once more, and now and then one that reuses a key, has none, is declined, is
    /// put off, or is in doubt.
    fn feed(&mut self) {
        let first = self.fed * 10;
        let payment = |id: u32| format!("{{\"id\":\"pay-{id}\",\"amount\":{id}}}");
        let mut batch = lines(first..first + 10, payment) + &lines(first..first + 3, payment);
        let number = self.fed;
        let rest = match number % 5 {
            0 => format!("{{\"id\":\"pay-{first}\",\"amount\":0.5}}\n{{\"amount\":1}}\n"),
            1 => format!("{{\"id\":\"dead-{number}\"}}\n"),
            2 => format!("{{\"id\":\"again-{number}\"}}\n"),
            3 => format!("{{\"id\":\"doubt-{number}\"}}\n"),
            _ => String::new(),
        };
        batch += &rest;
        self.fed += 1;
        let (_, messages) = self.worker.as_mut().expect("a worker");
        messages.write_all(batch.as_bytes()).expect("messages");
    }

    /// Publishes 30 messages, ten of which were published before.
    fn publish(&self) {
        let first = self.fed;
        let batch: Vec<_> = (first..first + 30)
            .map(|number| {
                let id = format!("clean-{}", number % (first + 20));
                Publication {
                    id: number.to_string().into(),
                    order: Some(id.clone().into()),
                    payload: format!("{{\"id\":\"{id}\"}}").into(),
                    headers: Vec::new(),
                }
            })
            .collect();
        let sink = KafkaSink::new(SinkOptions::new(&Topic::address(), &self.topic.0));
        for confirmed in runtime().block_on(sink.expect("a sink").publish(&batch)) {
            confirmed.expect("it is with the broker");
        }
    }
}
