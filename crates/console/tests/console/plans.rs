//! Plans on pages: their terms, and all that is kept of them where they are not carried out.

use semel_core::Reason;
use semel_http::Role;

use crate::orders::{done, doubtful, planned};
use crate::site::{Page, Site, key, scope};

#[tokio::test]
async fn an_order_that_is_refused_keeps_its_plan_and_its_reason() {
    let (site, id) = doubtful("pay-1").await;
    let form = [
        ("ids", &*id),
        ("verdict", "applied"),
        ("outcome", "charged"),
    ];
    let plan = planned(&site, "in-doubt/resolve", &form).await;
    let token = plan.hidden("token").to_owned();
    site.close();
    let form = [
        ("token", &*token),
        ("reason", "at the provider"),
        ("verdict", "applied"),
        ("outcome", "charged"),
    ];
    let page = site.post("/orders/do/in-doubt/resolve", &form).await;
    assert_eq!(page.status, 503);
    page.has("Resolve: not done")
        .has("Nothing was changed.")
        .has("value=\"at the provider\"")
        .has("it happened")
        .lacks("Not shown");
    assert_eq!(page.hidden("token"), token);
    site.open();
    let form = [
        ("token", page.hidden("token")),
        ("reason", page.hidden("reason")),
    ];
    site.post("/orders/do/in-doubt/resolve", &form)
        .await
        .has("one change done");
    site.close();
    let page = site.post("/orders/plan/store/sweep", &[]).await;
    assert_eq!(page.status, 503);
    page.has("Not planned").has("Nothing was changed.");
}

#[tokio::test]
async fn a_reason_that_fits_into_its_input_is_taken() {
    let (site, id) = doubtful("pay-1").await;
    let plan = planned(&site, "keys/hold", &[("ids", &*id)]).await;
    plan.has("maxlength=\"341\"");
    done(&site, "keys/hold", &plan, &"あ".repeat(341))
        .await
        .has("one change done");
}

#[tokio::test]
async fn a_plan_says_what_is_ordered() {
    let (site, id) = doubtful("pay-1").await;
    let plan = |action: &'static str, form: Vec<(&'static str, &'static str)>| {
        let (site, id) = (&site, &id);
        async move {
            let mut form = form;
            let named = [("ids", &**id)];
            form.retain(|(name, _)| *name != "ids");
            let form: Vec<_> = named.into_iter().chain(form).collect();
            planned(site, action, &form).await
        }
    };
    let applied = vec![("verdict", "applied"), ("outcome", "charged <b>")];
    let page = plan("in-doubt/resolve", applied).await;
    page.has("it happened")
        .has("The outcome that duplicates get")
        .has("charged &lt;b&gt;");
    let page = plan("in-doubt/resolve", vec![("verdict", "applied")]).await;
    page.has("an empty one");
    let page = plan("in-doubt/resolve", vec![("verdict", "abandon")]).await;
    page.has("it cannot be found out")
        .lacks("The outcome that duplicates get");
    let page = plan("keys/hold", vec![]).await;
    page.has("<h1>Hold?</h1>")
        .has("<td>hold</td>")
        .has("Hold one change");
    done(&site, "keys/hold", &page, "a drill")
        .await
        .has("one change done");
    let page = plan("keys/hold", vec![("off", "true")]).await;
    page.has("<h1>Let go?</h1>")
        .has("Let go one change")
        .has("no longer");
    let all = [
        ("all", "true"),
        ("verdict", "abandon"),
        ("pipeline", "pay"),
        ("older_than", "1s"),
    ];
    let page = planned(&site, "in-doubt/resolve", &all).await;
    page.has("all that there are")
        .has("<code><bdi>1s</bdi></code>");
    let terms =
        |it: &Page| ["verdict", "pipeline", "older_than"].map(|name| it.hidden(name).to_owned());
    assert_eq!(
        terms(&page),
        ["abandon", "pay", "1s"],
        "they go on to what comes of it"
    );
    let done = vec![("verdict", "applied")];
    let page = plan("in-doubt/resolve", done).await;
    self::done(&site, "in-doubt/resolve", &page, "a drill")
        .await
        .has("one change done");
    let page = plan("keys/extend", vec![("window", "30d")]).await;
    page.has("Remember for").has("30d");
}

#[tokio::test]
async fn pipelines_are_paused_drained_and_resumed_from_the_overview() {
    let tokens = [
        ("eve", Role::Viewer, None),
        ("bob", Role::Operator, Some("acme")),
    ];
    let (site, secrets) = Site::with("0.0.0.0:9464", &["pay".to_owned()], &tokens);
    let cookie = format!("semel_token={}", secrets[0]);
    let page = site.get_with("/", &[("cookie", &cookie)]).await;
    page.has("Ordered: drain").lacks("/orders/");
    let cookie = format!("semel_token={}", secrets[1]);
    let headers = [("cookie", &*cookie), ("sec-fetch-site", "same-origin")];
    let page = site
        .post_with(
            "/orders/plan/pipelines/pause",
            &[("pipelines", "pay")],
            &headers,
        )
        .await;
    assert_eq!(page.status, 403, "it is about every tenant: {}", page.text);

    let site = Site::configured();
    // The worker of the test says that `pay` is drained.
    let page = site.get("/").await;
    page.has("/orders/plan/pipelines/pause")
        .has("/orders/plan/pipelines/resume")
        .has(">relay <")
        .has("INC-9")
        .has("Waits to be published")
        .lacks("pipelines/drain");
    assert_eq!(page.hidden("pipelines"), "pay");
    let form = [("pipelines", "pay")];
    for (order, before, after) in [
        ("drain", "run", "drain"),
        ("pause", "drain", "pause"),
        ("resume", "pause", "run"),
    ] {
        let action = format!("pipelines/{order}");
        let plan = planned(&site, &action, &form).await;
        plan.has(&format!("<td>{before}</td><td>{after}</td>"));
        let page = done(&site, &action, &plan, "INC-7").await;
        page.has("one change done");
        let again = planned(&site, &action, &form).await;
        again
            .has("Nothing would change.")
            .has("What stays as it is");
    }
    site.get("/audit").await.has("INC-7");
    let page = site.post("/orders/plan/pipelines/pause", &[]).await;
    assert_eq!(page.status, 400);
    page.has("Nothing is selected");
    planned(&site, "pipelines/pause", &[("pipelines", "mail")])
        .await
        .has("the worker has no such pipeline");
}

#[tokio::test]
async fn a_group_of_messages_is_dropped_whole() {
    let site = Site::new();
    let pay = scope("", "pay");
    for at in 0..120 {
        let detail = if at == 0 { "HTTP 410" } else { "HTTP 422" };
        site.park(&pay, &key(&format!("a-{at}")), Reason::Dead, detail)
            .await;
    }
    let page = site.get("/dead-letters").await;
    page.has("The first 100 are shown.");
    let form = [
        ("all", "true"),
        ("pipeline", "pay"),
        ("reason_like", "HTTP 422"),
    ];
    for (name, value) in form {
        page.has(&format!(
            "type=\"hidden\" name=\"{name}\" value=\"{value}\""
        ));
    }
    let plan = planned(&site, "dead-letters/drop", &form).await;
    plan.has("Drop 119 changes")
        .has("all that there are")
        .has("<bdi>HTTP 422</bdi>");
    done(&site, "dead-letters/drop", &plan, "a drill")
        .await
        .has("119 of 119 changes done");
    let page = site.get("/dead-letters").await;
    page.has("<b>1</b> message, in 1 group.").has("HTTP 410");
}

#[tokio::test]
async fn producers_are_frozen_released_and_thawed_on_their_page() {
    let site = Site::configured();
    site.get("/store").await.has("href=\"/producers\"");
    let form = [("producers", "billing"), ("side", "publisher")];
    for (order, before, after) in [
        ("freeze", "open", "frozen"),
        ("release", "frozen", "frozen"),
        ("thaw", "frozen", "open"),
    ] {
        let page = site.get("/producers").await;
        page.has("billing").has("&lt;i&gt;orders").lacks("<i>");
        page.has(&format!("/orders/plan/producers/{order}"));
        let action = format!("producers/{order}");
        let plan = planned(&site, &action, &form).await;
        plan.has(&format!("<td>{before}</td><td>{after}</td>"))
            .has("On the side");
        let page = done(&site, &action, &plan, "INC-7").await;
        page.has("one change done");
    }
    let page = site.get("/producers").await;
    page.lacks("/orders/plan/producers/thaw");
    site.get("/audit").await.has("billing: open");
}
