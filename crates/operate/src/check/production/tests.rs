use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use semel_config::Settings;
use semel_core::port::horizon::{Horizon, HorizonReport};
use semel_core::port::store::Durability;
use semel_core::{Code, Error, ErrorKind, Timestamp};

use super::*;
use crate::check::sample::Unusable;
use crate::check::set_aside::Pile;
use crate::check::text_settings::settings;
use crate::check::{Broker, Finding, Inspection, Sample, Storage, fail, warn};
use crate::value::Time;

const NOW: Timestamp = Timestamp::from_millis(1_000 * 86_400_000);
const HOUR: Duration = Duration::from_secs(3_600);

/// Everything that a program may observe of the pipeline `pay`, at first without a fault.
struct World {
    file: &'static str,
    pipeline: &'static str,
    effect: &'static str,
    store: Result<Inspection, Error>,
    place: Vec<Finding>,
    targets: Vec<Finding>,
    refused: Option<Error>,
    horizons: Result<Option<HorizonReport>, Error>,
    sample: Option<Sample>,
    rate: Option<NonZeroU32>,
    set_aside: Option<Result<SetAside, Error>>,
    scrape: Scrape,
    /// The disk of the store, and the number of pipelines that share it.
    disk: Option<Disk>,
    pipelines: usize,
}

const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:9464\"";
const BEST: &str = "owner = \"team-payments\"\nrunbook = \"https://wiki.example/payments\"\n\
                    key = [\"json:/tenant\", \"json:/id\"]\nbirth = \"json:/at\"";
const UNNAMED: &str = "key = [\"json:/tenant\", \"json:/id\"]\nbirth = \"json:/at\"";
const NO_BIRTH: &str =
    "owner = \"a\"\nrunbook = \"http://b\"\nkey = [\"json:/tenant\", \"json:/id\"]";
const ACCEPTING: &str = "owner = \"a\"\nrunbook = \"http://b\"\nkey = [\"json:/tenant\", \"json:/id\"]\n\
                         accept = [\"window-too-short\"]";
const EXEC: &str = "kind = \"exec\"\ncommand = [\"true\"]";
const KEYED: &str =
    "kind = \"exec\"\ncommand = [\"true\"]\nclass = \"keyed\"\nprovider_window = \"30d\"";
const HTTP: &str = "kind = \"http\"\nurl = \"http://127.0.0.1:1/\"";
const TARGET: &str = "kind = \"file\"\npath = \"out\"";

impl World {
    fn best() -> Self {
        Self {
            file: ADMIN,
            pipeline: BEST,
            effect: TARGET,
            store: Ok(Inspection::embedded(Durability::PowerCut)),
            place: Vec::new(),
            targets: Vec::new(),
            refused: None,
            horizons: Ok(None),
            sample: Some(Sample {
                messages: 9,
                keyed: 9,
                ..Sample::default()
            }),
            rate: NonZeroU32::new(50),
            set_aside: Some(Ok(SetAside::default())),
            scrape: answered("semel_decisions_total{pipeline=\"pay\",decision=\"granted\"} 0\n"),
            disk: Some(Disk {
                held: 0,
                free: 1 << 40,
            }),
            pipelines: 1,
        }
    }

    fn settings(&self) -> Settings {
        let Self {
            file,
            pipeline,
            effect,
            ..
        } = self;
        // A source that is there, wherever the test runs.
        let source = env!("CARGO_MANIFEST_DIR");
        let text = format!(
            "{file}\n[pipelines.pay]\nsource = {{ kind = \"file\", path = \"{source}/Cargo.toml\" }}\n{pipeline}\n\
             [pipelines.pay.effect]\n{effect}\n"
        );
        settings(&text)
    }

    fn with_list<T>(&self, visit: impl FnOnce(&Production) -> T) -> T {
        let settings = self.settings();
        let pipeline = &settings.pipelines[0];
        let rules = &pipeline.pipeline;
        let subject = Subject {
            settings: &settings,
            pipeline,
            store: self.store.as_ref(),
            broker: &Broker {
                horizons: self.horizons.clone(),
                at: NOW,
            },
            place: &self.place,
            targets: &self.targets,
            refused: self.refused.as_ref(),
            sample: self.sample.as_ref(),
            storage: Storage::of(&settings.store, &rules.fingerprint, rules.window, self.rate),
        };
        let observed = Observed {
            set_aside: self.set_aside.as_ref().map(Result::as_ref),
            scrape: &self.scrape,
            room: Room {
                needed: subject.storage.disk_bytes(),
                pipelines: self.pipelines,
                disk: self.disk,
            },
        };
        visit(&Production::of(&subject, &Report::of(&subject), &observed))
    }

    fn line(&self, name: &str) -> Line {
        self.with_list(|list| {
            let line = list.lines.iter().find(|it| it.line == name);
            line.expect("a line of that name").clone()
        })
    }
}

fn answered(text: &str) -> Scrape {
    Scrape::Answered(address("127.0.0.1:9464"), text.to_owned())
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn kept(days: u32) -> HorizonReport {
    let length = Horizon::Within(HOUR * 24 * days);
    HorizonReport {
        redelivery: length,
        replay: length,
        ..HorizonReport::unknown()
    }
}

fn pile(count: u64, age: Duration) -> Pile {
    Pile {
        count,
        oldest: Some(Time(NOW.minus(age))),
        is_cut: false,
    }
}

fn away(code: Code) -> Error {
    Error::new(ErrorKind::Unavailable, "connection refused").with_code(code)
}

type Change = fn(&mut World);

use Standing::{Fail, Pass, Unknown};

/// Every line, as it passes where it can, fails and is not known: with a part of the reason.
const CASES: &[(&str, Standing, &str, Change)] = &[
    ("owner", Pass, "team-payments", |_| {}),
    ("owner", Fail, "nobody is named", |it| it.pipeline = UNNAMED),
    ("owner", Fail, "nobody is named", |it| {
        it.pipeline = UNNAMED;
        it.file = "";
    }),
    ("runbook", Pass, "https://wiki.example/payments", |_| {}),
    ("runbook", Fail, "no page", |it| it.pipeline = UNNAMED),
    ("key", Pass, "of 9 captured messages", |_| {}),
    ("key", Unknown, "was not looked at", |it| it.sample = None),
    ("key", Unknown, "holds no message", |it| {
        it.sample = Some(Sample::default());
    }),
    ("key", Fail, "no message yields a key", |it| {
        it.sample = Some(Sample {
            messages: 9,
            ..Sample::default()
        });
    }),
    ("key", Fail, "use a key of another request", |it| {
        it.sample = Some(Sample {
            messages: 9,
            keyed: 9,
            conflicts: 1,
            ..Sample::default()
        });
    }),
    ("key", Fail, "where a message lies", |it| {
        it.pipeline = "key = \"coordinates\"";
    }),
    ("key", Unknown, "without a fingerprint", |it| {
        it.pipeline = "key = \"json:/id\"\nfingerprint = \"none\"";
    }),
    (
        "tenants",
        Pass,
        "json:/tenant tells customers apart",
        |_| {},
    ),
    (
        "tenants",
        Pass,
        "header:X-Tenant-ID tells customers",
        |it| {
            it.pipeline = "key = [\"json:/id\", \"header:X-Tenant-ID\"]";
        },
    ),
    (
        "tenants",
        Pass,
        "json:/id; header:X-Customer is the tenant",
        |it| {
            it.pipeline = "key = \"json:/id\"\ntenant = \"header:X-Customer\"";
        },
    ),
    (
        "tenants",
        Unknown,
        "json:/order + json:/line; whether",
        |it| {
            it.pipeline = "key = [\"json:/order\", \"json:/line\"]";
        },
    ),
    ("tenants", Unknown, "two customers", |it| {
        it.pipeline = "key = \"json:/tenant\"";
    }),
    ("tenants", Unknown, "json:/tenant/id + json:/id", |it| {
        it.pipeline = "key = [\"json:/tenant/id\", \"json:/id\"]";
    }),
    ("tenants", Unknown, "two customers", |it| {
        it.pipeline = "key = \"json:/id\"";
    }),
    ("class", Pass, "transactional: exactly once", |_| {}),
    (
        "class",
        Unknown,
        "unkeyed: at most once; a call whose end nobody knows is not made again",
        |it| {
            it.effect = EXEC;
        },
    ),
    (
        "class",
        Unknown,
        "unkeyed: at least once; a call whose end nobody knows is made again",
        |it| {
            it.effect = "kind = \"exec\"\ncommand = [\"true\"]\non_doubt = \"repeat\"";
        },
    ),
    ("class", Unknown, "recognises its key for 30d", |it| {
        it.effect = KEYED;
    }),
    ("class", Unknown, "accepted: fail = \"open\"", |it| {
        it.effect = KEYED;
        it.pipeline = "key = \"json:/id\"\nfail = \"open\"";
    }),
    ("class", Unknown, "accepted: approximate", |it| {
        it.effect = KEYED;
        it.pipeline = "key = \"json:/id\"\napproximate = { keys = 1000, accept_loss = true }";
    }),
    (
        "class",
        Fail,
        "does not hold here: store-durability",
        |it| {
            it.effect = EXEC;
            it.store = Ok(Inspection::embedded(Durability::Kill));
        },
    ),
    (
        "class",
        Fail,
        "does not hold here: window-too-short",
        |it| {
            it.pipeline = NO_BIRTH;
            it.horizons = Ok(Some(kept(8)));
        },
    ),
    ("class", Unknown, "accepted: durability", |it| {
        it.effect = EXEC;
        it.file = "[store]\naccept = [\"durability\"]";
        it.store = Ok(Inspection::embedded(Durability::Kill));
    }),
    ("class", Pass, "accepted: window-too-short", |it| {
        it.pipeline = ACCEPTING;
        it.horizons = Ok(Some(kept(8)));
    }),
    ("window", Pass, "is set aside, not repeated", |_| {}),
    ("window", Pass, "are needed", |it| {
        it.horizons = Ok(Some(kept(6)));
    }),
    ("window", Unknown, "there is no broker", |it| {
        it.pipeline = NO_BIRTH;
    }),
    ("window", Unknown, "set aside as too-old", |it| {
        it.horizons = Ok(Some(kept(8)));
    }),
    ("window", Unknown, "could not be read", |it| {
        it.horizons = Ok(Some(HorizonReport::unknown()));
    }),
    ("window", Unknown, "could not be asked", |it| {
        it.horizons = Err(away(Code::SourceUnavailable));
    }),
    ("window", Fail, "its effect happens again", |it| {
        it.pipeline = NO_BIRTH;
        it.horizons = Ok(Some(kept(8)));
    }),
    ("window", Pass, "accepted by `accept`", |it| {
        it.pipeline = ACCEPTING;
        it.horizons = Ok(Some(kept(8)));
    }),
    ("producers", Pass, "keeps its birth, json:/at", |_| {}),
    ("producers", Unknown, "was not looked at", |it| {
        it.sample = None;
    }),
    ("producers", Fail, "3 of 10 captured messages", |it| {
        let unusable = |count| Unusable {
            count,
            ..Unusable::default()
        };
        it.sample = Some(Sample {
            messages: 10,
            unusable: BTreeMap::from([
                ("birth-missing".into(), unusable(2)),
                ("birth-invalid".into(), unusable(1)),
            ]),
            ..Sample::default()
        });
    }),
    ("producers", Unknown, "without `birth`", |it| {
        it.pipeline = NO_BIRTH;
    }),
    ("producers", Unknown, "a new message to the broker", |it| {
        it.horizons = Ok(Some(HorizonReport {
            is_stamped: true,
            ..HorizonReport::unknown()
        }));
    }),
    ("retry", Pass, "10 attempts", |_| {}),
    (
        "retry",
        Pass,
        "a call takes 30s at most, and the lease is 30s",
        |it| {
            it.effect = HTTP;
        },
    ),
    ("retry", Fail, "a call may take 31s", |it| {
        it.effect = "kind = \"exec\"\ncommand = [\"true\"]\ntimeout = \"31s\"";
    }),
    ("retry", Fail, "longer than the window", |it| {
        it.pipeline = "key = \"json:/id\"\nretry = { attempts = 100, backoff = \"3h\" }";
    }),
    ("source", Pass, "can be read", |_| {}),
    ("source", Pass, "can be read", |it| {
        it.store = Err(away(Code::StoreUnavailable));
    }),
    ("source", Fail, "connection refused", |it| {
        it.horizons = Err(away(Code::SourceUnavailable));
    }),
    ("source", Pass, "can be read", |it| {
        it.store = Err(away(Code::Timeout));
    }),
    ("source", Fail, "connection refused", |it| {
        it.horizons = Err(away(Code::Timeout));
        it.store = Err(away(Code::Timeout));
    }),
    ("source", Unknown, "half a promise", |it| {
        it.horizons = Ok(Some(HorizonReport {
            warnings: vec!["half a promise".into()],
            ..HorizonReport::unknown()
        }));
    }),
    ("target", Pass, "file out; its folder is there", |_| {}),
    ("target", Unknown, "no check calls it", |it| {
        it.effect = HTTP;
    }),
    ("target", Unknown, "standard output", |it| {
        it.effect = "kind = \"stdout\"\non_doubt = \"repeat\"";
    }),
    ("target", Fail, "gone", |it| {
        it.targets = vec![fail("target-unavailable", "gone", "make it")];
    }),
    ("target", Fail, "no such table", |it| {
        it.file = "[store]\nurl = \"sqlite:pay.db\"";
        it.effect = "kind = \"sql\"\nstatement = \"insert into pay values (:id)\"";
        it.refused = Some(Error::new(ErrorKind::InvalidConfig, "no such table"));
    }),
    ("store", Pass, "survives a power cut", |_| {}),
    ("store", Unknown, "not there yet", |it| {
        it.store = Ok(Inspection {
            is_there: false,
            capabilities: None,
            ..Inspection::embedded(Durability::PowerCut)
        });
    }),
    ("store", Unknown, "is no store yet", |it| {
        it.store = Ok(Inspection {
            is_there: false,
            ..Inspection::embedded(Durability::PowerCut)
        });
    }),
    ("store", Unknown, "a network", |it| {
        let mut found = Inspection::embedded(Durability::PowerCut);
        let warnings = found.capabilities.as_mut().map(|it| &mut it.warnings);
        warnings.expect("some").push("a network".into());
        it.store = Ok(found);
    }),
    ("store", Fail, "connection refused", |it| {
        it.store = Err(away(Code::StoreUnavailable));
    }),
    ("store", Fail, "nobody would know", |it| {
        it.effect = EXEC;
        it.store = Ok(Inspection::embedded(Durability::Kill));
    }),
    ("store", Pass, "accepted by `store.accept`", |it| {
        it.effect = EXEC;
        it.file = "[store]\naccept = [\"durability\"]";
        it.store = Ok(Inspection::embedded(Durability::Kill));
    }),
    ("store", Pass, "survives a power cut", |it| {
        it.horizons = Err(away(Code::Timeout));
    }),
    ("store", Fail, "connection refused", |it| {
        it.horizons = Err(away(Code::Timeout));
        it.store = Err(away(Code::Timeout));
    }),
    ("store", Fail, "accepted by `store.accept`", |it| {
        it.file = "[store]\naccept = [\"durability\"]";
        it.store = Ok(Inspection::embedded(Durability::Process));
    }),
    ("store", Fail, "forgets everything", |it| {
        it.file = "[store]\nurl = \"memory:\"\nallow_volatile = true";
        it.effect = "kind = \"exec\"\ncommand = [\"true\"]\non_doubt = \"repeat\"";
        it.store = Ok(Inspection::embedded(Durability::Process));
    }),
    ("store", Fail, "forgets everything", |it| {
        it.effect = KEYED;
        it.pipeline = "key = \"json:/id\"\napproximate = { keys = 1000, accept_loss = true }";
        it.store = Ok(Inspection::embedded(Durability::Process));
    }),
    ("store", Fail, "others read it", |it| {
        it.place = vec![warn("store-exposed", "others read it", "hide it")];
    }),
    (
        "room",
        Pass,
        "a full window takes 5 GiB; its disk has 1 TiB left",
        |_| {},
    ),
    (
        "room",
        Pass,
        "the store has 5 GiB, and its disk has 1 MiB left",
        |it| {
            it.disk = Some(Disk {
                held: (5 << 30) + 1,
                free: (2 << 20) - 1,
            });
        },
    ),
    ("room", Pass, "full windows of all 3 pipelines take", |it| {
        it.pipelines = 3;
    }),
    ("room", Unknown, "could not be read", |it| it.disk = None),
    ("room", Fail, "its disk has 1 MiB left", |it| {
        it.disk = Some(Disk {
            held: 1 << 30,
            free: 1 << 20,
        });
    }),
    ("room", Unknown, "as much as its process", |it| {
        it.file = "[store]\nurl = \"memory:\"\nallow_volatile = true";
    }),
    ("room", Unknown, "was not said", |it| it.rate = None),
    ("room", Unknown, "disk of the server", |it| {
        it.file = "[store]\nurl = \"postgres://localhost/pay\"";
    }),
    ("room", Fail, "full", |it| {
        it.place = vec![warn("disk-short", "full", "make room")];
    }),
    (
        "alerts",
        Unknown,
        "answers, and has this pipeline; whether somebody scrapes it",
        |_| {},
    ),
    (
        "alerts",
        Unknown,
        "others can reach it too, without a login",
        |it| {
            let text = "semel_in_flight{pipeline=\"pay\"} 0".to_owned();
            it.scrape = Scrape::Answered(address("0.0.0.0:9464"), text);
        },
    ),
    ("alerts", Unknown, "connection refused", |it| {
        it.scrape = Scrape::Silent(address("127.0.0.1:9464"), "connection refused".to_owned());
    }),
    ("alerts", Fail, "does not run this pipeline", |it| {
        it.scrape = answered("semel_in_flight{pipeline=\"pay2\"} 0\nother{pipeline=\"pay\"} 1");
    }),
    ("alerts", Fail, "no metrics", |it| it.scrape = Scrape::Off),
    ("set-aside", Pass, "nothing waits", |_| {}),
    ("set-aside", Pass, "nothing ran yet", |it| {
        it.set_aside = None;
        it.store = Ok(Inspection {
            is_there: false,
            capabilities: None,
            ..Inspection::embedded(Durability::PowerCut)
        });
    }),
    ("set-aside", Unknown, "nobody counted", |it| {
        it.set_aside = None;
        it.store = Ok(Inspection {
            unfit: Some(away(Code::StoreReadOnly)),
            ..Inspection::embedded(Durability::PowerCut)
        });
    }),
    ("set-aside", Unknown, "in memory", |it| {
        it.file = "[store]\nurl = \"memory:\"\nallow_volatile = true";
        it.set_aside = None;
    }),
    (
        "set-aside",
        Unknown,
        "more than 1000 dead letters, one of them for 1 h",
        |it| {
            let dead = Pile {
                is_cut: true,
                ..pile(1_000, HOUR)
            };
            it.set_aside = Some(Ok(SetAside {
                dead,
                ..SetAside::default()
            }));
        },
    ),
    ("set-aside", Unknown, "could not be looked at", |it| {
        it.set_aside = None;
        it.store = Err(away(Code::StoreUnavailable));
    }),
    ("set-aside", Unknown, "connection refused", |it| {
        it.set_aside = Some(Err(away(Code::StoreUnavailable)));
    }),
    (
        "set-aside",
        Unknown,
        "2 dead letters, the oldest for 1 day; 1 operation in doubt, for 1 h",
        |it| {
            it.set_aside = Some(Ok(SetAside {
                dead: pile(2, HOUR * 24),
                in_doubt: pile(1, HOUR),
                quarantined: Pile::default(),
            }));
        },
    ),
    (
        "set-aside",
        Fail,
        "3 messages in quarantine, the oldest for 1 day 1 h",
        |it| {
            it.set_aside = Some(Ok(SetAside {
                quarantined: pile(3, HOUR * 25),
                ..SetAside::default()
            }));
        },
    ),
    (
        "backup",
        Unknown,
        "together with what the effects change",
        |_| {},
    ),
    ("backup", Unknown, "in one database", |it| {
        it.file = "[store]\nurl = \"sqlite:pay.db\"";
        it.effect = "kind = \"sql\"\nstatement = \"insert into pay values (:id)\"";
    }),
];

#[test]
fn each_line_passes_fails_or_is_not_known() {
    for (at, (name, verdict, why, change)) in CASES.iter().enumerate() {
        let mut world = World::best();
        change(&mut world);
        let line = world.line(name);
        assert_eq!(line.verdict, *verdict, "{at}: {line:?}");
        assert!(line.why.contains(why), "{at}: {why}: {line:?}");
        assert_eq!(line.advice.is_none(), *verdict == Pass, "{at}: {line:?}");
    }
}

#[test]
fn every_line_but_those_of_people_can_fail() {
    let of_people = ["backup", "tenants"];
    World::best().with_list(|list| {
        for line in &list.lines {
            let mut cases = CASES.iter();
            let can = cases.any(|(name, verdict, ..)| *name == line.line && *verdict == Fail);
            assert_eq!(can, !of_people.contains(&&*line.line), "{}", line.line);
        }
    });
}

#[test]
fn the_list_counts_its_lines_and_is_as_bad_as_the_worst() {
    World::best().with_list(|list| {
        assert_eq!((list.failed, list.unknown), (0, 2), "{:?}", list.lines);
        assert_eq!(list.passed, list.lines.len() - 2);
        assert_eq!(list.verdict, Unknown);
    });
    let mut world = World::best();
    world.pipeline = UNNAMED;
    world.with_list(|list| {
        assert_eq!((list.verdict, list.failed), (Fail, 2));
        let json = serde_json::to_value(list).expect("JSON");
        assert_eq!(json["verdict"], "fail");
        let owner = serde_json::json!({
            "line": "owner", "verdict": "fail",
            "why": "nobody is named whom an alert could reach",
            "advice": "name the team, as in `owner = \"team-payments\"`",
            "findings": [],
        });
        assert_eq!(json["lines"][0], owner);
    });
}

#[test]
fn a_missing_owner_warns_where_somebody_watches() {
    for (file, pipeline, is_found) in [
        (ADMIN, UNNAMED, true),
        (ADMIN, BEST, false),
        ("", UNNAMED, false),
    ] {
        let world = World {
            file,
            pipeline,
            ..World::best()
        };
        let settings = world.settings();
        let subject = Subject {
            settings: &settings,
            pipeline: &settings.pipelines[0],
            store: world.store.as_ref(),
            broker: &Broker {
                horizons: Ok(None),
                at: NOW,
            },
            place: &[],
            targets: &[],
            refused: None,
            sample: None,
            storage: Storage::of(
                &settings.store,
                &settings.pipelines[0].pipeline.fingerprint,
                settings.pipelines[0].pipeline.window,
                None,
            ),
        };
        let findings = subject.findings();
        let found = findings.iter().find(|it| it.code == "owner-missing");
        assert_eq!(found.is_some(), is_found, "{findings:?}");
    }
}
