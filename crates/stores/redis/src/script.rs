//! The scripts, and one call of one of them.

use redis::Cmd;

/// A script, with the name under which a server remembers it.
pub(crate) struct Script {
    text: &'static str,
    hash: Box<str>,
}

macro_rules! scripts {
    ($(#[$about:meta])* $set:ident: $($name:ident = [$($file:literal),+],)+) => {
        $(#[$about])*
        pub(crate) struct $set {
            $(pub(crate) $name: Script,)+
        }

        impl $set {
            pub(crate) fn new() -> Self {
                Self {
                    $($name: Script::new(concat!(
                        $(include_str!(concat!("../schema/", $file)),)+
                    )),)+
                }
            }
        }
    };
}

scripts! {
    /// Every script of the store.
    Scripts:
    audit = ["prelude.lua", "audit.lua"],
    begin = ["prelude.lua", "begin.lua"],
    claim = ["prelude.lua", "claim.lua"],
    commit = ["prelude.lua", "commit.lua"],
    complete = ["prelude.lua", "complete.lua"],
    drop = ["prelude.lua", "drop.lua"],
    due = ["prelude.lua", "due.lua"],
    gone = ["prelude.lua", "gone.lua"],
    park = ["prelude.lua", "park.lua"],
    read = ["prelude.lua", "read.lua"],
    renew = ["prelude.lua", "renew.lua"],
    token = ["prelude.lua", "token.lua"],
    visit = ["prelude.lua", "visit.lua"],
    visited = ["prelude.lua", "visited.lua"],
}

scripts! {
    /// Every script of the journal of producers.
    ProducerScripts:
    begin = ["producers/begin.lua"],
    open = ["producers/prelude.lua", "producers/open.lua"],
    append = ["producers/prelude.lua", "producers/own.lua", "producers/append.lua"],
    confirm = ["producers/prelude.lua", "producers/own.lua", "producers/confirm.lua"],
    pending = ["producers/prelude.lua", "producers/own.lua", "producers/pending.lua"],
    input = ["producers/prelude.lua", "producers/own.lua", "producers/input.lua"],
    order = ["producers/prelude.lua", "producers/order.lua"],
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self {
            text,
            hash: redis::Script::new(text).get_hash().into(),
        }
    }
}

/// One request to one server.
pub(crate) struct Call<'s> {
    script: &'s Script,
    keys: Vec<Vec<u8>>,
    clock: Box<str>,
    share: [u8; 4],
    arguments: Vec<Vec<u8>>,
}

impl<'s> Call<'s> {
    /// Creates a call with the keys of its bucket and its share of the stamps; `clock` stands in for the server's, if
    /// there is one.
    pub(crate) fn new(
        script: &'s Script,
        keys: Vec<Vec<u8>>,
        share: [u8; 4],
        clock: Box<str>,
    ) -> Self {
        Self {
            script,
            keys,
            clock,
            share,
            arguments: Vec::new(),
        }
    }

    /// Makes room for this many keys and arguments.
    pub(crate) fn reserve(&mut self, keys: usize, arguments: usize) {
        self.keys.reserve(keys);
        self.arguments.reserve(arguments);
    }

    pub(crate) fn key(&mut self, key: Vec<u8>) -> &mut Self {
        self.keys.push(key);
        self
    }

    pub(crate) fn arg(&mut self, argument: impl Into<Vec<u8>>) -> &mut Self {
        self.arguments.push(argument.into());
        self
    }

    /// Returns the command for the server of this run: by its hash, or whole.
    pub(crate) fn command(&self, run: &str, is_whole: bool) -> Cmd {
        let arguments = || self.keys.iter().chain(&self.arguments);
        let size = arguments().map(|it| it.len() + 8).sum::<usize>() + 256;
        let mut command = Cmd::with_capacity(arguments().count() + 5, size);
        if is_whole {
            command.arg("EVAL").arg(self.script.text);
        } else {
            command.arg("EVALSHA").arg(&*self.script.hash);
        }
        command.arg(self.keys.len());
        for key in &self.keys {
            command.arg(key.as_slice());
        }
        let place = [&self.share[..], run.as_bytes()].concat();
        command.arg(&*self.clock).arg(place);
        for argument in &self.arguments {
            command.arg(argument.as_slice());
        }
        command
    }
}
