//! Hostile strings in keys, payloads, errors and names are text on every page.

use semel_core::Reason;
use semel_http::Role;

use crate::markup;
use crate::site::{Site, key, scope};

/// Strings that would be more than text where a page is made carelessly.
const SEEDS: &[&str] = &[
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><script>alert(1)</script>",
    "'><script>alert(1)</script>",
    "\" onmouseover=\"alert(1)",
    "' onfocus='alert(1)",
    "javascript:alert(1)",
    "<a href=javascript:alert(1)>x</a>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script>",
    "<iframe src=//evil.example>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<style>*{display:none}</style>",
    "<link rel=stylesheet href=//evil.example>",
    "<!-- ",
    "-->",
    "<![CDATA[",
    "]]>",
    "&lt;script&gt;",
    "&#60;script&#62;",
    "&amp;",
    "&quot;",
    "%3Cscript%3E",
    "\\u003cscript\\u003e",
    "<scr<script>ipt>",
    "<form action=//evil.example><input name=token>",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video src=x onerror=alert(1)>",
    "<object data=//evil.example>",
    "<math><mtext></form>",
    "<textarea>",
    "</textarea>",
    "<title>",
    "</title>",
    "<plaintext>",
    "<xmp>",
    "<noscript>",
    "{{7*7}}",
    "${7*7}",
    "#{7*7}",
    "<%= 7*7 %>",
    "`id`",
    "$(id)",
    "' OR 1=1 --",
    "; DROP TABLE keys",
    "../../etc/passwd",
    "//evil.example",
    "\\\\evil.example",
    "/v1/config",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "expression(alert(1))",
    "url(//evil.example)",
    "\u{202e}txt.exe",
    "\u{200b}",
    "\u{feff}",
    "ﬁ＜script＞",
    "İ",
    "ß",
    "👩‍👩‍👧‍👧",
    "a\u{301}",
    "\u{fffd}",
    "null",
    "undefined",
    "NaN",
    "true",
    "0",
    "-1",
    "1e309",
    "[]",
    "{}",
    "json",
    "__proto__",
    "constructor",
    "toString",
    "<",
    ">",
    "\"",
    "'",
    "&",
    "=",
    "/",
    "?",
    "#",
    "%",
    "%00",
    "%0d%0aSet-Cookie:a=b",
    "+",
    ";",
    ",",
    "\\",
    "|",
    "^",
    "~",
    "!",
    "@",
    "*",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
];

/// Two hundred of them.
fn corpus() -> Vec<String> {
    let mut all: Vec<String> = SEEDS.iter().map(|it| (*it).to_owned()).collect();
    // And each of the sharp ones in the middle of something longer.
    let sharp = SEEDS
        .iter()
        .filter(|it| it.contains(['<', '"', '\'', '&', ':']));
    all.extend(sharp.clone().map(|it| format!("pay-{it}-1")));
    all.extend(sharp.clone().map(|it| it.to_uppercase()));
    all.extend(sharp.map(|it| it.repeat(3)));
    all.truncate(200);
    assert_eq!(all.len(), 200);
    all
}

/// Text as a page has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[tokio::test]
async fn a_corpus_of_hostile_strings_is_text_on_every_page() {
    let corpus = corpus();
    let (site, _) = Site::with("127.0.0.1:9464", &corpus, &[]);
    for (at, text) in corpus.iter().enumerate() {
        // As a tenant, as a pipeline, as a key, as an error, as coordinates, as a name and as a reason.
        let (of_tenant, of_pipeline) = (scope(text, "pay"), scope("acme", text));
        let plain = key(&format!("plain-{at}"));
        site.doubt(&of_tenant, &[key(text)], text).await;
        site.park(&of_pipeline, &plain, Reason::Dead, text).await;
        site.park(&of_tenant, &plain, Reason::Conflict, text).await;
        site.hold(&of_tenant, &key(text), (text, text)).await;
        let payload = serde_json::json!({ "text": text }).to_string();
        for reason in [Reason::Dead, Reason::Conflict] {
            let page = site.park_payload(&scope("", "pay"), reason, &payload).await;
            let page = site.get(&page).await;
            markup::check(&page.text);
            page.has(&escaped(&payload));
        }
    }
    let paths = [
        "/",
        "/in-doubt",
        "/dead-letters",
        "/quarantine",
        "/window",
        "/store",
        "/audit",
        "/audit?cursor=x",
    ];
    let mut all = String::new();
    for path in paths {
        let page = site.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        markup::check(&page.text);
        all += &page.text;
    }
    let mut next = site.get("/audit").await;
    while let Some((_, rest)) = next.text.split_once("href=\"/audit?") {
        let query = rest
            .split('"')
            .next()
            .unwrap_or_default()
            .replace("&amp;", "&");
        next = site.get(&format!("/audit?{query}")).await;
        markup::check(&next.text);
        all += &next.text;
    }
    for text in &corpus {
        assert!(all.contains(&escaped(text)), "no page shows {text:?}");
        let query = form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        for path in [
            format!("/key?key={query}"),
            format!("/key?key={query}&tenant={query}&pipeline=pay"),
            format!("/in-doubt?tenant={query}"),
            format!("/dead-letters?pipeline={query}"),
            format!("/audit?key={query}&since={query}"),
            format!("/login?next={query}"),
            format!("/{query}"),
        ] {
            let page = site.get(&path).await;
            assert!(page.status < 500, "{path}: {}", page.text);
            markup::check(&page.text);
            let is_told =
                path.contains("since") || path.starts_with("/login") || path == format!("/{query}");
            assert!(
                is_told || page.text.contains(&escaped(text)),
                "{path}: {}",
                page.text
            );
        }
        let form = [
            ("ids", &**text),
            ("verdict", text),
            ("outcome", text),
            ("reason_like", text),
            ("token", text),
        ];
        for path in [
            "/orders/plan/in-doubt/resolve",
            "/orders/do/in-doubt/resolve",
        ] {
            let page = site.post(path, &form).await;
            assert_eq!(page.status, 400, "{path}: {}", page.text);
            markup::check(&page.text);
        }
    }
    assert!(!all.contains("PAYLOAD"), "a payload");
}

#[tokio::test]
async fn plans_and_what_was_done_show_hostile_keys_as_text() {
    let site = Site::new();
    let keys: Vec<_> = corpus().iter().map(|it| key(it)).collect();
    site.doubt(&scope("acme", "pay"), &keys, "no answer").await;
    let form = [("all", "true"), ("verdict", "abandon")];
    let plan = site.post("/orders/plan/in-doubt/resolve", &form).await;
    markup::check(&plan.text);
    let token = plan.hidden("token").to_owned();
    let form = [("token", &*token), ("reason", "<script>alert(1)</script>")];
    let done = site.post("/orders/do/in-doubt/resolve", &form).await;
    assert_eq!(done.status, 200, "{}", done.text);
    markup::check(&done.text);
    for text in corpus() {
        plan.has(&escaped(&text));
        done.has(&escaped(&text));
    }
}

#[tokio::test]
async fn a_hostile_name_of_a_token_and_of_its_tenant_is_text() {
    let name = "<script>alert(1)</script>";
    let tokens = [(name, Role::Operator, Some(name))];
    let (site, secrets) = Site::with("0.0.0.0:9464", &["pay".to_owned()], &tokens);
    let cookie = format!("semel_token={}", secrets[0]);
    for path in [
        "/",
        "/key?key=a",
        "/in-doubt",
        "/window",
        "/store",
        "/audit",
        "/nothing",
    ] {
        let page = site.get_with(path, &[("cookie", &cookie)]).await;
        markup::check(&page.text);
        page.has(&escaped(name));
    }
}
