//! A second worker, on a store of this machine: one pipeline reads a file, the other one filters approximately.

use std::io::{PipeWriter, Write};

use crate::ready::Admin;
use crate::site::{Running, Site, lines, wait_for};

pub(super) struct Local {
    running: Running,
    messages: PipeWriter,
    _site: Site,
}

impl Local {
    pub(super) fn start(admin: &Admin) -> Self {
        let config = format!(
            "[store]\nurl = \"embedded:data\"\n{}\
             [pipelines.file]\nsource = {{ kind = \"file\", path = \"in\" }}\nkey = \"json:/id\"\n\
             effect = {{ kind = \"stdout\", on_doubt = \"repeat\" }}\n\
             [pipelines.filter]\nsource = {{ kind = \"stdin\" }}\nkey = \"cloudevents\"\n\
             approximate = {{ keys = 10000 }}\neffect = {{ kind = \"stdout\", on_doubt = \"repeat\" }}\n",
            admin.table()
        );
        let site = Site::with(&[("semel.toml", &config), ("in", &payments())]);
        let (input, messages) = std::io::pipe().expect("a pipe");
        let mut command = site.command();
        command.arg("run").stdin(input);
        let mut running = Running::start(&mut command);
        wait_for("a worker that is ready", || {
            assert!(running.is_running(), "{}", running.stderr());
            admin.ready().0
        });
        Self {
            running,
            messages,
            _site: site,
        }
    }

    /// Feeds payments, of which a third comes twice.
    pub(super) fn feed(&mut self) {
        let payments = payments();
        self.messages
            .write_all(payments.as_bytes())
            .expect("messages");
    }

    /// Ends its input, and so the worker.
    pub(super) fn end(self) {
        drop(self.messages);
        self.running.wait().done();
    }
}

fn payments() -> String {
    let payment = |id: u32| {
        format!("{{\"specversion\":\"1.0\",\"type\":\"paid\",\"source\":\"shop\",\"id\":\"{id}\"}}")
    };
    lines((0..100).chain(0..50), payment)
}
