//! `keys extend --all` of a worker: what it remembers for longer is what the verb on the store does.

use super::{Asked, end};
use crate::operator::STORES;

const EXTEND: [&str; 9] = [
    "keys",
    "extend",
    "--all",
    "--pipeline",
    "pay",
    "--window",
    "30d",
    "--reason",
    "why",
];

#[test]
fn every_finished_key_of_a_pipeline_is_remembered_for_longer() {
    for store in STORES {
        let asked = Asked::new(store);
        let worker = asked.worker();
        let yes = [&EXTEND[..], &["--yes", "--output", "json"]].concat();
        let planned = asked.there(&EXTEND).code(1);
        planned
            .says("plan: extend 1 pipeline\n")
            .says("pay  3 finished keys")
            .says("nothing was changed");
        let all = ["keys", "extend", "--all", "--window", "30d"];
        asked.there(&all).code(2).says("name it");
        asked.there(&[&EXTEND[..7], &["--yes"]].concat()).code(2);
        let done = asked.there(&yes).done();
        let expected = "{\"pipeline\":\"pay\",\"extended\":3,\"refused\":0}\n";
        assert_eq!(done.stdout, expected, "{store}");
        asked.there(&yes).done().says("nothing to extend");
        let audit = ["store", "audit", "--output", "jsonl"];
        let audit = asked.there(&audit).done().stdout;
        let of = |action: &str| {
            let action = format!("\"action\":\"{action}\"");
            audit.lines().filter(|it| it.contains(&action)).count()
        };
        assert_eq!((of("extend"), of("keys/extend")), (3, 2), "{audit}");
        end(worker);
        // Nothing is left for the verb on the store.
        asked.here(&yes).done().says("nothing to extend");
    }
}
