//! A Chromium of the test's own, driven as the protocol `WebDriver` has it, with what Chromium's driver adds.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::site::{Site, wait_for, wait_within};

/// A browser with one page. It is killed when dropped, with its driver.
pub(super) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts the programs on the path.
    pub(super) fn start(place: &Site) -> Self {
        let port = free_port::take().expect("a free port");
        let log = std::fs::File::create(place.path("chromedriver.log")).expect("a log");
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log)
            .spawn()
            .expect("the program `chromedriver`, of the Debian package chromium-driver");
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
        };
        wait_for("chromedriver", || {
            let ended = browser.driver.try_wait().expect("a child");
            assert_eq!(ended, None, "{}", place.text("chromedriver.log"));
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let data = format!("--user-data-dir={}", place.path("chromium").display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            &data,
        ];
        let capabilities = json!({
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "goog:chromeOptions": { "args": arguments },
        });
        let begun = browser.call(
            "POST",
            "/session",
            &json!({ "capabilities": { "alwaysMatch": capabilities } }),
        );
        let session = begun["sessionId"].as_str().expect("a session");
        browser.session = format!("/session/{session}");
        let most = LONGEST.as_millis() - 10_000;
        browser.post("timeouts", &json!({ "script": most, "pageLoad": most }));
        // The page that it begins with is its own.
        browser.open("about:blank");
        browser.requests();
        browser
    }

    /// Opens a page.
    pub(super) fn open(&self, address: &str) {
        self.post("url", &json!({ "url": address }));
    }

    /// Runs a function in the page; returns what it returns.
    pub(super) fn run(&self, body: &str) -> Value {
        self.post("execute/sync", &json!({ "script": body, "args": [] }))
    }

    /// Runs a function that returns a promise.
    pub(super) fn run_to_end(&self, body: &str) -> Value {
        let script = format!(
            "const done = arguments[arguments.length - 1]; (async () => {{ {body} }})().then(done, (it) => done(String(it)));"
        );
        self.post("execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Waits until something is true in the page.
    #[track_caller]
    pub(super) fn wait(&self, what: &str) {
        wait_within(LONGEST, what, || {
            self.run(&format!("return Boolean({what});")) == true
        });
    }

    /// Clicks the first element of a selector, as a mouse does.
    #[track_caller]
    pub(super) fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.post(&format!("element/{element}/click"), &json!({}));
    }

    /// Clicks a button, and waits for the page to which its form leads.
    #[track_caller]
    pub(super) fn submit(&self, selector: &str) {
        self.run("window.isBefore = true;");
        self.click(selector);
        self.wait("!window.isBefore && document.readyState === 'complete'");
    }

    /// Types into an input.
    #[track_caller]
    pub(super) fn fill(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.post(
            &format!("element/{element}/value"),
            &json!({ "text": text }),
        );
    }

    /// The text of the page.
    pub(super) fn text(&self) -> String {
        let text = self.run("return document.body.innerText;");
        text.as_str().unwrap_or_default().to_owned()
    }

    /// The messages of the console since the last look.
    pub(super) fn messages(&self) -> Vec<String> {
        let log = self.post("se/log", &json!({ "type": "browser" }));
        let log = log.as_array().cloned().unwrap_or_default();
        log.iter().map(ToString::to_string).collect()
    }

    /// The addresses that were asked for since the last look.
    pub(super) fn requests(&self) -> Vec<String> {
        let log = self.post("se/log", &json!({ "type": "performance" }));
        let log = log.as_array().cloned().unwrap_or_default();
        let events = log.iter().filter_map(|it| {
            let event: Value = serde_json::from_str(it["message"].as_str()?).ok()?;
            let event = &event["message"];
            let is_request = event["method"] == "Network.requestWillBeSent";
            let address = event["params"]["request"]["url"].as_str()?;
            is_request.then(|| address.to_owned())
        });
        events.collect()
    }

    /// Shows pages this wide, and in the dark or not.
    pub(super) fn looks(&self, width: u32, height: u32, is_dark: bool) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.chromium("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.chromium("Emulation.setEmulatedMedia", &features);
    }

    /// Keeps files that pages hand over in a folder.
    pub(super) fn keeps_files_in(&self, folder: &Path) {
        let allowed = json!({ "behavior": "allow", "downloadPath": folder });
        self.chromium("Browser.setDownloadBehavior", &allowed);
    }

    /// A picture of the page, in PNG or WebP.
    pub(super) fn picture(&self, format: &str) -> Vec<u8> {
        let wanted = json!({ "format": format, "quality": 85 });
        let picture = self.chromium("Page.captureScreenshot", &wanted);
        let text = picture["data"].as_str().expect("a picture");
        STANDARD.decode(text).expect("base64")
    }

    fn chromium(&self, command: &str, params: &Value) -> Value {
        self.post(
            "goog/cdp/execute",
            &json!({ "cmd": command, "params": params }),
        )
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let found = self.post(
            "element",
            &json!({ "using": "css selector", "value": selector }),
        );
        let name = found["element-6066-11e4-a52e-4f735466cecf"].as_str();
        name.expect("an element").to_owned()
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let value = self.call("POST", &format!("{}/{path}", self.session), body);
        assert!(value.get("error").is_none(), "{path}: {value}");
        value
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.send(method, path, body);
        answer.unwrap_or_else(|error| panic!("chromedriver, {path}: {error}"))
    }

    /// Sends a command. The driver keeps its connections open, so that the answer ends with its length.
    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let body = body.to_string();
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(LONGEST))?;
        let mut stream = BufReader::new(stream);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.get_mut().write_all((head + &body).as_bytes())?;
        let (mut length, mut line) = (0, String::new());
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let lower = line.to_ascii_lowercase();
            if let Some(text) = lower.strip_prefix("content-length:") {
                length = text.trim().parse().map_err(Error::other)?;
            }
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer)?;
        let answer: Value = serde_json::from_slice(&answer)?;
        Ok(answer["value"].clone())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // This ends the browser as well. A driver that is gone must not hide why a test fails.
        if !self.session.is_empty() {
            let _ = self.send("DELETE", &self.session, &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The longest wait for anything, on a machine that has much else to do: a worker that hangs is noticed after half a minute.
const LONGEST: Duration = Duration::from_secs(180);
