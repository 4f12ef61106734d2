//! SIGTERM and SIGINT: the run finishes or releases running work and exits with 0; the second signal ends it at
//! once.

use std::process::Stdio;

use rustix::process::Signal;

use crate::site::{Site, lines, wait_for};

fn site(handler: &str, settings: &str, effect: &str) -> Site {
    let config = format!(
        "{settings}\n[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\nconcurrency = 2\n[pipelines.p.effect]\nkind = \"exec\"\n\
         command = [\"sh\", \"handler.sh\"]\n{effect}\n"
    );
    let lines: String = lines(0..12, |id| format!("{{\"id\":{id}}}"));
    Site::with(&[
        ("semel.toml", &config),
        ("in", &lines),
        ("handler.sh", handler),
    ])
}

fn calls(site: &Site) -> usize {
    site.text("calls.log").lines().count()
}

#[test]
fn what_runs_is_finished_and_the_rest_released() {
    for signal in [Signal::TERM, Signal::INT] {
        let site = site("echo \"$SEMEL_KEY\" >> calls.log; sleep 0.3\n", "", "");
        let run = site.start(&["run", "--output", "json"]);
        wait_for("the second pair of calls", || calls(&site) >= 3);
        run.signal(signal);
        let ended = run
            .wait()
            .done()
            .says("stopping: finishing what is running; once more to leave at once");
        let first = ended.summary();
        let applied = first.count("applied");
        assert_eq!(applied, calls(&site) as u64, "whatever began was finished");
        first.is(&[("applied", applied), ("released", 12 - applied)]);
        assert!((3..=6).contains(&applied), "{ended:?}");

        site.run()
            .is(&[("applied", 12 - applied), ("replayed", applied)]);
        let mut keys = site.sorted_lines("calls.log");
        keys.dedup();
        assert_eq!((keys.len(), calls(&site)), (12, 12), "each exactly once");
    }
}

#[test]
fn patience_has_an_end_and_what_it_broke_off_goes_by_its_class() {
    for (effect, fate, calls_in_all) in [
        ("on_doubt = \"park\"", "in_doubt", 12),
        (
            "class = \"keyed\"\nprovider_window = \"1h\"",
            "released",
            14,
        ),
    ] {
        let handler =
            "echo \"$SEMEL_KEY $SEMEL_IDEMPOTENCY_KEY\" >> calls.log; test -e quick || sleep 20\n";
        let site = site(handler, "shutdown = \"200ms\"", effect);
        let run = site.start(&["run", "--output", "json"]);
        wait_for("the first pair of calls", || calls(&site) == 2);
        run.signal(Signal::TERM);
        let ended = run.wait().done();
        let released = if fate == "released" { 12 } else { 10 };
        ended
            .summary()
            .is(&[("released", released), ("in_doubt", 12 - released)]);

        site.write("quick", "");
        let summary = site.run();
        summary.is(&[("applied", released), ("in_doubt", 12 - released)]);
        assert_eq!(calls(&site), calls_in_all);
        let mut keys = site.sorted_lines("calls.log");
        keys.dedup();
        assert_eq!(keys.len(), 12, "a repeated call carries the same key");
    }
}

#[test]
fn a_second_signal_leaves_at_once() {
    let site = site(
        "echo \"$SEMEL_KEY\" >> calls.log; test -e quick || exec sleep 3\n",
        "",
        "on_doubt = \"park\"",
    );
    let config = site
        .text("semel.toml")
        .replace("concurrency", "lease = \"500ms\"\nconcurrency");
    site.write("semel.toml", config);
    let mut run = site.start(&["run", "--output", "json"]);
    wait_for("the first pair of calls", || calls(&site) == 2);
    run.signal(Signal::TERM);
    wait_for("the first signal to be heard", || {
        run.stderr().contains("stopping: ")
    });
    assert!(run.is_running());
    run.signal(Signal::TERM);
    let ended = run.wait().code(128 + 15);
    assert_eq!(ended.stdout, "");

    // This is as safe as `kill -9`: work under way is in doubt, the rest runs.
    site.write("quick", "");
    site.run().is(&[("applied", 10), ("in_doubt", 2)]);
    assert_eq!(calls(&site), 12, "nothing was called twice");
}

#[test]
fn a_run_that_waits_for_input_stops_too() {
    let config = "[store]\nurl = \"embedded:data\"\n[pipelines.p]\nsource = { kind = \"stdin\" }\n\
                  key = \"line\"\neffect = { kind = \"file\", path = \"out\" }\n";
    let site = Site::with(&[("semel.toml", config)]);
    let mut command = site.command();
    let mut child = command
        .args(["run", "--output", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("semel");
    wait_for("the output to be opened", || site.path("out").exists());
    let id = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a process");
    rustix::process::kill_process(id, Signal::TERM).expect("it is there");
    let mut status = None;
    wait_for("its end", || {
        status = child.try_wait().expect("a child");
        status.is_some()
    });
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

/// A test that waits in vain for a process has to show this: it may not see the same again.
#[test]
fn a_process_that_does_not_end_is_described() {
    let site = site(
        "echo $$ >> calls.log; exec sleep 20",
        "shutdown = \"600s\"",
        "",
    );
    let mut run = site.start(&["run", "--output", "json"]);
    wait_for("the first pair of calls", || calls(&site) == 2);
    run.signal(Signal::TERM);
    wait_for("the word of the worker", || {
        run.stderr().contains("stopping:")
    });
    // A handler writes its line before it becomes this.
    wait_for("the handlers", || run.diagnosis().contains(": sleep 20"));
    let found = run.diagnosis();
    for said in [
        "stopping: finishing what is running",
        "\nthread semel: ",
        ": sleep 20",
        "\nSigCgt:",
        "\nfile 2: ",
    ] {
        assert!(found.contains(said), "no {said:?} in {found}");
    }
    run.signal(Signal::TERM);
    run.wait().code(128 + 15);
}
