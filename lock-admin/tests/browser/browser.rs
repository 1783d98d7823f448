//! Chromium, driven by its driver.

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use lock_test_support::time::PATIENCE;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};

/// One at a time: a browser uses more than one core.
static ONE: Mutex<()> = Mutex::const_new(());

pub(crate) struct Browser {
    pub(crate) client: Client,
    // Dropped after the client is: ends the browser, however the test ends.
    _driver: Driver,
    _one: MutexGuard<'static, ()>,
}

/// The driver and its browsers, which are one process group.
struct Driver {
    process: Child,
}

impl Driver {
    /// Starts a driver on a free port. It says which, unless it has ended.
    fn start() -> (Driver, Option<u16>) {
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("tests/run.sh installs chromium-driver");
        let printed = process.stdout.take().unwrap();
        let mut lines = BufReader::new(printed).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let rest = line.split_once("started successfully on port ")?.1;
            rest.trim_end_matches('.').parse().ok()
        });
        // It may go on printing.
        std::thread::spawn(move || lines.for_each(drop));
        (Driver { process }, port)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.process.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.process.wait();
    }
}

/// A command that only Chromium's driver has.
#[derive(Debug)]
struct OfChromium {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for OfChromium {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!(
            "session/{}/{}",
            session.unwrap_or_default(),
            self.path
        ))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    pub(crate) async fn start() -> Browser {
        Browser::with(true).await
    }

    /// Starts one that runs no script of a page.
    pub(crate) async fn without_script() -> Browser {
        Browser::with(false).await
    }

    async fn with(script: bool) -> Browser {
        let one = ONE.lock().await;
        // One that finds its port in use, by IPv4 or IPv6, ends without a word.
        let (driver, port) = std::iter::repeat_with(Driver::start)
            .take(5)
            .find_map(|(driver, port)| Some((driver, port?)))
            .expect("a driver says its port");
        let url = format!("http://127.0.0.1:{port}");
        // A container has no namespaces for the sandbox, and little shared memory.
        let mut options = json!({
            "args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1200,900"],
        });
        if !script {
            options["prefs"] = json!({ "profile.managed_default_content_settings.javascript": 2 });
        }
        let Value::Object(capabilities) = json!({
            "browserName": "chrome",
            // axe-core needs long on a busy machine.
            "timeouts": { "script": 300_000 },
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
        }) else {
            unreachable!()
        };
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&url)
            .await
            .expect("tests/run.sh installs chromium");
        Browser {
            client,
            _driver: driver,
            _one: one,
        }
    }

    /// Returns what the page shows as text.
    pub(crate) async fn text(&self, css: &str) -> String {
        let Ok(element) = self.client.find(Locator::Css(css)).await else {
            return String::new();
        };
        // A part may be replaced at any time.
        element.text().await.unwrap_or_default()
    }

    /// Waits until the text of an element is as expected.
    pub(crate) async fn until(&self, css: &str, expected: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let text = self.text(css).await;
            if expected(&text) {
                return text;
            }
            assert!(begun.elapsed() < PATIENCE, "`{css}` is {text:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn count(&self, css: &str) -> usize {
        self.client.find_all(Locator::Css(css)).await.unwrap().len()
    }

    pub(crate) async fn click(&self, css: &str) {
        let begun = Instant::now();
        // It may be replaced at that moment.
        while !self.is_clicked(css).await {
            assert!(begun.elapsed() < PATIENCE, "`{css}` can't be clicked");
        }
    }

    /// Types a text into a field.
    pub(crate) async fn write(&self, css: &str, text: &str) {
        let field = self.client.find(Locator::Css(css)).await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    async fn is_clicked(&self, css: &str) -> bool {
        match self.client.find(Locator::Css(css)).await {
            Ok(element) => element.click().await.is_ok(),
            Err(_) => false,
        }
    }

    pub(crate) async fn evaluate(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }

    /// Shows pages in a scheme of colors, and at the width of a screen.
    pub(crate) async fn show(&self, scheme: &str, width: u32) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.devtools(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        )
        .await;
        let metrics =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)
            .await;
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({ "cmd": command, "params": parameters });
        let path = "goog/cdp/execute";
        self.client
            .issue_cmd(OfChromium { path, body })
            .await
            .unwrap();
    }

    /// Returns what the console says of errors and warnings.
    pub(crate) async fn console(&self) -> Vec<String> {
        let body = json!({ "type": "browser" });
        let log = OfChromium {
            path: "se/log",
            body,
        };
        let entries = self.client.issue_cmd(log).await.unwrap();
        let entries = entries.as_array().unwrap().iter();
        entries.map(|entry| entry["message"].to_string()).collect()
    }
}
