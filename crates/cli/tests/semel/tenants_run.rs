//! A pipeline whose messages have tenants: one key of two tenants is two operations, through every verb.

use std::io::Write;

use serde_json::Value;

use crate::operator::{STORES, fresh, items, member, object};
use crate::ready::Admin;
use crate::site::{Running, Site, killed_until_done, lines, wait_for};

/// A pipeline `pay` with tenants, which has run over `done-1` and `dead-1` of two tenants, `doubt-1` and a number of one
/// each, and two messages without a tenant.
fn worked(store: &str) -> Site {
    let site = fresh(store);
    let config = site.text("semel.toml");
    site.write(
        "semel.toml",
        config.replace("key =", "tenant = \"json:/tenant\"\nkey ="),
    );
    let handler = site.text("handler.sh");
    site.write("handler.sh", handler.replace("ran-", "ran-$SEMEL_TENANT-"));
    let message = |(tenant, id): (&str, &str)| format!("{{\"tenant\":{tenant},\"id\":\"{id}\"}}");
    let all = [
        ("\"acme\"", "done-1"),
        ("\"other\"", "done-1"),
        ("\"other\"", "done-1"),
        ("\"acme\"", "dead-1"),
        ("\"other\"", "dead-1"),
        ("\"acme\"", "doubt-1"),
        ("7.0", "done-2"),
        ("null", "x-1"),
    ];
    site.write("in", lines(all, message) + "{\"id\":\"x-2\"}\n");
    site.run().is(&[
        ("applied", 3),
        ("replayed", 1),
        ("dead", 2),
        ("in_doubt", 1),
        ("quarantined", 2),
    ]);
    site
}

impl Site {
    /// The items of a list.
    fn list(&self, typed: &str) -> Vec<Value> {
        let typed: Vec<_> = typed.split(' ').chain(["--output", "json"]).collect();
        items(&self.semel(&typed).done())
    }

    /// Runs a verb of which the arguments have no spaces.
    fn verb(&self, typed: &str) -> crate::site::Ended {
        self.semel(&typed.split(' ').collect::<Vec<_>>())
    }
}

#[test]
fn one_key_of_two_tenants_is_two_operations() {
    for store in STORES {
        let site = worked(store);
        for ran in ["acme-done-1", "other-done-1", "7-done-2"] {
            assert!(site.path(&format!("ran-{ran}")).exists(), "{ran}");
        }
        let listed = site.list("keys list");
        assert_eq!(listed.len(), 6);
        let mut ids = member(&listed, "operation_id");
        ids.dedup();
        assert_eq!(ids.len(), 6, "{listed:?}");
        let tenants = member(&listed, "tenant");
        assert_eq!(tenants, ["7", "acme", "acme", "acme", "other", "other"]);
        assert_eq!(
            member(&site.list("keys list --tenant 7"), "key"),
            ["done-2"]
        );
        assert_eq!(site.list("keys list --tenant acme --state dead").len(), 1);
        let quarantined = site.list("quarantine list");
        assert_eq!(
            member(&quarantined, "reason"),
            ["tenant-missing", "tenant-missing"]
        );
        assert!(quarantined.iter().all(|it| it.get("tenant").is_none()));
        assert!(site.list("quarantine list --tenant acme").is_empty());
        // What is set aside before its key is known is nobody's.
        let nobodys = ["quarantine", "list", "--tenant", "", "--output", "json"];
        assert_eq!(items(&site.semel(&nobodys).done()).len(), 2);
        site.verb("explain tenant-missing").done();
    }
}

#[test]
fn a_key_without_a_tenant_is_that_of_the_only_one_who_has_it() {
    for store in STORES {
        let site = worked(store);
        for verb in ["keys show", "keys explain"] {
            site.verb(&format!("{verb} done-1")).code(2).says(
                "which tenant? pay has done-1 of acme (completed), other (completed); name one with --tenant NAME",
            );
            let typed = format!("{verb} done-1 --tenant other --output json");
            assert_eq!(object(&site.verb(&typed).done())["tenant"], "other");
            let typed = format!("{verb} done-2 --output json");
            assert_eq!(object(&site.verb(&typed).done())["tenant"], "7");
        }
        let explained = site.verb("keys explain doubt-1").done().stdout;
        for told in [
            "tenant:       acme\n",
            "semel in-doubt show doubt-1 --tenant acme\n",
        ] {
            assert!(explained.contains(told), "{told}: {explained}");
        }
        for verb in ["hold", "forget", "release", "extend --window 30d"] {
            let typed = format!("keys {verb} dead-1 --yes");
            site.verb(&typed)
                .code(2)
                .says("which tenant? pay has dead-1 of acme (dead), other (dead)");
        }
        assert!(site.trail().is_empty());
        site.verb("keys hold dead-1 --tenant other --yes").done();
        site.verb("keys hold done-2 doubt-1 --yes").done();
        let trail = site.list("store audit");
        assert_eq!(member(&trail, "tenant"), ["7", "acme", "other"]);
        assert_eq!(site.list("store audit --tenant other").len(), 1);
        site.verb("keys show nobody")
            .code(1)
            .says("there is no record of nobody in pay");
        site.verb("keys forget done-1 --tenant acme --yes").done();
        let forgotten = site.verb("keys explain done-1 --output json").done();
        assert_eq!(object(&forgotten)["tenant"], "other", "the one that has it");
        site.verb("keys forget done-1 --yes").done();
        site.verb("keys explain done-1")
            .code(2)
            .says("which tenant? pay has done-1 of acme, other");
        let typed = "keys explain done-1 --tenant acme --output json";
        assert_eq!(object(&site.verb(typed).done())["state"], "absent");
        site.run().is(&[
            ("applied", 2),
            ("replayed", 2),
            ("dead", 2),
            ("in_doubt", 1),
            ("quarantined", 2),
        ]);
    }
}

#[test]
fn a_plan_is_carried_out_for_the_tenant_that_it_found() {
    let site = worked("embedded:data");
    for typed in ["keys hold doubt-1", "in-doubt resolve doubt-1 --applied"] {
        let pasted = format!("{typed} --tenant acme --yes");
        site.verb(typed).code(1).says(&pasted);
    }
    site.verb("keys hold done-2 doubt-1")
        .code(1)
        .says("the keys are of several tenants (7, acme)");
    site.verb("keys hold doubt-1 --tenant acme")
        .code(1)
        .says("keys hold doubt-1 --tenant acme --yes");
    site.verb("keys forget done-1 --tenant acme --yes").done();
    let planned = site.verb("keys forget done-1").code(1);
    planned.says("keys forget done-1 --tenant other --yes");
    // Meanwhile the key is forgotten, and another tenant has it.
    site.verb("keys forget done-1 --tenant other --yes").done();
    site.write("in", "{\"tenant\":\"acme\",\"id\":\"done-1\"}\n");
    site.run();
    site.verb("keys forget done-1 --tenant other --yes")
        .code(1)
        .says("there is no record of done-1 in pay of other");
    assert_eq!(
        site.list("keys list --prefix done-1 --tenant acme").len(),
        1
    );
    // The same with what is kept.
    site.verb("dead-letters drop dead-1 --tenant acme --yes")
        .done();
    for verb in ["replay", "drop"] {
        let typed = format!("dead-letters {verb} dead-1");
        let planned = site.verb(&typed).code(1);
        planned.says(&format!("{typed} --tenant other --yes"));
    }
}

#[test]
fn what_is_set_aside_of_one_tenant_runs_again_alone() {
    for store in STORES {
        let site = worked(store);
        let dead = site.list("dead-letters list");
        assert_eq!(member(&dead, "tenant"), ["acme", "other"]);
        for verb in ["show", "replay", "drop"] {
            site.verb(&format!("dead-letters {verb} dead-1"))
                .code(2)
                .says("which tenant? pay has dead-1 of acme, other; name one with --tenant NAME");
        }
        let shown = site.verb("dead-letters show dead-1 --tenant acme --output json");
        assert_eq!(object(&shown.done())["tenant"], "acme");
        site.write(
            "handler.sh",
            "cat >/dev/null; echo $SEMEL_TENANT-$SEMEL_KEY >> again\n",
        );
        for (all, covers) in [
            ("dead-letters replay --all", "acme (1), other (1)"),
            (
                "keys extend --all --window 90d",
                "7 (1), acme (2), other (2)",
            ),
        ] {
            let planned = site.verb(all).code(1);
            planned.says(&format!("tenants: {covers}\n"));
        }
        // What is carried out is told as well.
        let extended = site.verb("keys extend --all --window 90d --yes");
        extended.done().says("tenants: 7 (1), acme (2), other (2)");
        let all = site.verb("dead-letters replay --all --tenant acme --yes --output json");
        all.done().summary().is(&[("applied", 1)]);
        assert_eq!(site.text("again"), "acme-dead-1\n");
        assert_eq!(member(&site.list("dead-letters list"), "tenant"), ["other"]);
        let one = site.verb("dead-letters replay dead-1 --yes --output json");
        one.done().summary().is(&[("applied", 1)]);
        site.verb("in-doubt resolve doubt-1 --tenant other --applied --yes")
            .code(1)
            .says("there is no record of doubt-1 in pay of other");
        let resolved = site.verb("in-doubt resolve doubt-1 --applied --yes --output json");
        assert_eq!(items(&resolved.done())[0]["tenant"], "acme");
        // With another selector, what had no tenant has one.
        let config = site.text("semel.toml");
        site.write("semel.toml", config.replace("json:/tenant", "json:/id"));
        let released = site.verb("quarantine release --all --yes --output json");
        released.done().summary().is(&[("applied", 2)]);
        assert_eq!(member(&site.list("keys list --tenant x-1"), "key"), ["x-1"]);
    }
}

/// A dead letter of one tenant never runs as another's, nor as nobody's.
#[test]
fn a_dead_letter_whose_tenant_the_pipeline_does_not_find_any_more_stays() {
    let site = worked("embedded:data");
    let config = site.text("semel.toml");
    site.write("semel.toml", config.replace("json:/tenant", "json:/id"));
    site.verb("dead-letters replay --all --yes")
        .code(1)
        .says("the pipeline finds another tenant in it");
    site.write(
        "semel.toml",
        config.replace("tenant = \"json:/tenant\"\n", ""),
    );
    site.verb("dead-letters replay --all --yes")
        .code(1)
        .says("as configured now, the pipeline has no tenants");
    assert_eq!(site.list("dead-letters list").len(), 2);
}

#[test]
fn a_replay_may_be_of_one_tenant() {
    let site = worked("embedded:data");
    for tenant in ["acme", "other"] {
        site.verb(&format!("keys forget done-1 --tenant {tenant} --yes"))
            .done();
    }
    let replay = "replay --id r --allow-expired --tenant acme --yes --output json";
    let ended = site.verb(replay).done();
    ended
        .summary()
        .is(&[("applied", 1), ("dead", 1), ("in_doubt", 1)]);
    assert_eq!(
        member(&site.list("keys list --prefix done-1"), "tenant"),
        ["acme"]
    );
    let config = site.text("semel.toml");
    site.write(
        "semel.toml",
        config.replace("tenant = \"json:/tenant\"\n", ""),
    );
    site.verb(replay).code(2).says("pay has no tenants");
}

#[test]
fn an_export_carries_the_tenants() {
    let site = worked("embedded:data");
    site.verb("store export --to all.jsonl").done();
    site.verb("store import all.jsonl --store sqlite:moved.db --yes")
        .done();
    let config = site.text("semel.toml");
    site.write(
        "semel.toml",
        config.replace("embedded:data", "sqlite:moved.db"),
    );
    site.run().is(&[
        ("replayed", 4),
        ("dead", 2),
        ("in_doubt", 1),
        ("quarantined", 2),
    ]);
    let tenants = member(&site.list("keys list"), "tenant");
    assert_eq!(tenants, ["7", "acme", "acme", "acme", "other", "other"]);
}

#[test]
fn a_check_knows_the_tenants() {
    let site = worked("embedded:data");
    let typed = "check --sample in --output json";
    let report = object(&site.verb(typed));
    let sample = &report["sample"];
    assert_eq!(
        (&sample["keys"], &sample["conflicts"]),
        (&6.into(), &0.into())
    );
    assert_eq!(sample["without_tenant"], 2);
    site.write("in", "{\"id\":\"x\"}\n");
    let report = site.verb("check --sample in").code(1);
    for told in [
        "sample-without-tenant",
        "0 without a usable key, 1 without a tenant",
    ] {
        assert!(report.stdout.contains(told), "{told}: {}", report.stdout);
    }
}

/// The effect of each tenant happens once, however often the worker is killed.
#[test]
fn two_tenants_of_the_same_keys_each_have_their_rows_once() {
    const KEYS: u32 = 400;
    let config = "[store]\nurl = \"sqlite:shop.db\"\n[pipelines.p]\nsource = { kind = \"file\", path = \"in\" }\n\
                  key = \"json:/id\"\ntenant = \"json:/tenant\"\nbatch = 10\n[pipelines.p.effect]\nkind = \"sql\"\n\
                  statement = \"insert into t values (:tenant, :id)\"\n";
    let site = Site::with(&[("semel.toml", config)]);
    let database = site.database("shop.db");
    database
        .execute_batch("create table t (tenant, id)")
        .expect("a table");
    drop(database);
    let message = |(id, tenant)| format!("{{\"tenant\":\"{tenant}\",\"id\":{id}}}");
    let all = (0..KEYS).flat_map(|id| ["acme", "other", "acme"].map(|tenant| (id, tenant)));
    site.write("in", lines(all, message));
    let rows = || {
        let count = &site.rows("shop.db", "select count(*) from t")[0];
        count.parse::<usize>().expect("a number")
    };
    killed_until_done(&site, &["run", "--output", "json"], 40, rows);
    let counts =
        "select tenant, count(*), count(distinct id) from t group by tenant order by tenant";
    let expected = ["acme", "other"].map(|tenant| format!("{tenant}|{KEYS}|{KEYS}"));
    assert_eq!(site.rows("shop.db", counts), expected);
    site.run().is(&[("replayed", u64::from(3 * KEYS))]);
    assert_eq!(site.rows("shop.db", counts), expected);
    assert_eq!(site.list("keys list --tenant other").len(), KEYS as usize);
}

/// Many keys are found in one walk, which meets the same keys of the other tenant.
#[test]
fn a_plan_over_many_keys_of_one_tenant_shows_their_own_states() {
    let site = worked("embedded:data");
    site.write(
        "handler.sh",
        "cat >/dev/null; [ $SEMEL_TENANT = acme ] || exit 3\n",
    );
    let message =
        |(id, tenant): (u32, &str)| format!("{{\"tenant\":\"{tenant}\",\"id\":\"many-{id}\"}}");
    let all = (0..60).flat_map(|id| ["acme", "other"].map(|tenant| (id, tenant)));
    site.write("in", lines(all, message));
    site.run().is(&[("applied", 60), ("dead", 60)]);
    site.write("keys", lines(0..60, |id| format!("many-{id}")));
    for (tenant, state, other) in [
        ("acme", "completed", "dead"),
        ("other", "dead", "completed"),
    ] {
        let planned = site.verb(&format!("keys hold --keys-from keys --tenant {tenant}"));
        let plan = planned.stdout + &planned.stderr;
        assert!(
            plan.contains(&format!("pay of {tenant}  many-0  {state} since")),
            "{plan}"
        );
        assert!(!plan.contains(&format!("{other} since")), "{plan}");
    }
}

#[test]
fn a_worker_counts_and_logs_by_tenant() {
    let admin = Admin::new();
    let site = fresh("embedded:data");
    let config = site.text("semel.toml");
    let config = config.replace("{ kind = \"file\", path = \"in\" }", "{ kind = \"stdin\" }");
    let config = config.replace("key =", "tenant = \"json:/tenant\"\nkey =");
    site.write("semel.toml", config + &admin.table());
    let (input, mut messages) = std::io::pipe().expect("a pipe");
    let mut command = site.command();
    command.args(["run", "--log", "json", "--log-level", "decisions"]);
    let running = Running::start(command.stdin(input));
    drop(command);
    let message = |(tenant, id)| format!("{{\"tenant\":\"{tenant}\",\"id\":\"{id}\"}}");
    let all = [
        ("acme", "done-1"),
        ("acme", "done-1"),
        ("other", "dead-1"),
        ("", "x-1"),
    ];
    messages
        .write_all(lines(all, message).as_bytes())
        .expect("messages");
    for line in [
        "semel_tenant_decisions_total{tenant=\"acme\",decision=\"granted\"} 1",
        "semel_tenant_decisions_total{tenant=\"acme\",decision=\"replay\"} 1",
        "semel_tenant_decisions_total{tenant=\"other\",decision=\"granted\"} 1",
        "semel_quarantined_total{pipeline=\"pay\",reason=\"tenant-missing\"} 1",
        "semel_set_aside{pipeline=\"pay\",why=\"dead\"} 1",
        "semel_set_aside{pipeline=\"pay\",why=\"quarantined\"} 1",
    ] {
        wait_for(line, || admin.shows(line));
    }
    // The worker that has the store open carries the order out.
    site.verb("keys hold done-1 --yes").done();
    assert_eq!(member(&site.list("store audit"), "tenant"), ["acme"]);
    drop(messages);
    let ended = running.wait().done();
    let log = ended
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let log: Vec<Value> = log
        .filter(|line: &Value| line.get("key").is_some())
        .collect();
    assert!(log.len() >= 4, "{ended:?}");
    for line in log {
        let tenant = if line["key"] == "done-1" {
            "acme"
        } else {
            "other"
        };
        assert_eq!(line["tenant"], tenant, "{line}");
    }
}
