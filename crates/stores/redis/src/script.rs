//! The scripts, and one call of one of them.

use redis::Cmd;

/// A script, with the name under which a server remembers it.
pub(crate) struct Script {
    text: &'static str,
    hash: Box<str>,
}

macro_rules! scripts {
    ($($name:ident = $file:literal,)+) => {
        /// Every script of this store.
        pub(crate) struct Scripts {
            $(pub(crate) $name: Script,)+
        }

        impl Scripts {
            pub(crate) fn new() -> Self {
                Self {
                    $($name: Script::new(concat!(
                        include_str!("../schema/prelude.lua"),
                        include_str!(concat!("../schema/", $file)),
                    )),)+
                }
            }
        }
    };
}

scripts! {
    audit = "audit.lua",
    begin = "begin.lua",
    claim = "claim.lua",
    commit = "commit.lua",
    complete = "complete.lua",
    drop = "drop.lua",
    due = "due.lua",
    gone = "gone.lua",
    park = "park.lua",
    read = "read.lua",
    renew = "renew.lua",
    token = "token.lua",
    visit = "visit.lua",
    visited = "visited.lua",
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
