//! Nothing prints the password of a store, however it is given and whatever goes wrong.

use super::Schema;
use crate::operator::fresh;
use crate::servers::{
    PASSWORD, Told, is_silent, no_failure_prints_the_password, no_verb_prints_the_password, told,
};

#[test]
fn no_verb_prints_the_password_of_its_store() {
    for how in Told::ALL {
        let schema = Schema::new();
        schema.let_in();
        no_verb_prints_the_password(&schema.guarded(PASSWORD), how);
        let name = &schema.name;
        let kept = schema.rows(&format!(
            "select detail from {name}.parked union all select error from {name}.records \
             union all select who || was || became from {name}.audit"
        ));
        assert!(!kept.join("\n").contains(PASSWORD), "{kept:?}");
    }
}

#[test]
fn no_failure_prints_the_password_of_its_store() {
    let schema = Schema::new();
    schema.let_in();
    let right = schema.guarded(PASSWORD);
    let at = right.find('@').expect("a user");
    for url in [
        &*format!("{}-wrong{}", &right[..at], &right[at..]),
        &right.replace("sslmode=disable", "sslmode=require"),
        &format!("{right}&password={PASSWORD}&no_such={PASSWORD}"),
        &format!("postgres://me:{PASSWORD}/{PASSWORD}@127.0.0.1:1/db"),
        &format!("postgres://me:{PASSWORD}@127.0.0.1:1/db?password={PASSWORD}"),
        &format!("postgres://me:{PASSWORD}@no-such-host.invalid/db"),
        &format!("postgres://me:{PASSWORD}@[::1/db"),
        &format!("postgres://me:{PASSWORD}@127.0.0.1:99999/db"),
        &format!("postgres://me:%zz{PASSWORD}@127.0.0.1:1/db"),
        &format!("postgre://me:{PASSWORD}@127.0.0.1:1/db"),
        &format!("cassandra://me:{PASSWORD}@127.0.0.1:1/db"),
        &format!("//me:{PASSWORD}@127.0.0.1:1/db"),
    ] {
        no_failure_prints_the_password(url);
    }
}

/// Removes a table behind our back: no driver's error stands for that, so it is reported as a defect.
#[test]
fn a_defect_does_not_print_the_password_of_its_store() {
    let schema = Schema::new();
    schema.let_in();
    let url = schema.guarded(PASSWORD);
    let site = fresh(&url);
    site.write("in", "{\"id\":\"done-1\"}\n");
    is_silent(&site.semel(&["run"]).done());
    let name = &schema.name;
    schema.execute(&format!(
        "alter table {name}.records drop column claim cascade"
    ));
    for arguments in [
        &["run"][..],
        &["keys", "show", "done-1"],
        &["store", "sweep"],
    ] {
        let ended = told(&site, &url, Told::Config, arguments);
        is_silent(&ended);
        assert_ne!(ended.stderr, "", "{arguments:?}: {ended:#?}");
    }
}
