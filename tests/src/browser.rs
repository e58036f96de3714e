//! A real browser, without a window, driven over the DevTools protocol: pages are loaded, keys pressed, results looked at.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::observe::TIME_LIMIT;
use crate::{packages, process};

/// A browser with one page open.
pub struct Browser {
    child: Child,
    commands: File,
    answers: Receiver<Value>,
    session: String,
    last_id: u64,
    /// Uncaught exceptions of the page.
    pub exceptions: Vec<String>,
    _directory: TempDir,
}

impl Browser {
    /// Starts Debian's chromium and loads the file.
    pub fn open(page: &Path) -> Result<Browser> {
        let chromium = packages::command("chromium", "chromium")?;
        let directory = tempfile::Builder::new().prefix("tracefork-browser-").tempdir()?;
        let [commands, answers] = ["commands", "answers"].map(|name| directory.path().join(name));
        for fifo in [&commands, &answers] {
            mkfifo(fifo, Mode::S_IRWXU).with_context(|| fifo.display().to_string())?;
        }
        let mut command = Command::new("sh");
        // It reads commands from descriptor 3 and answers on 4.
        command
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$COMMANDS\" 4>\"$ANSWERS\""])
            .arg(chromium);
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
        ]);
        command.args(["--window-size=1400,800", "--no-first-run"]);
        // Nothing of it may ask the network.
        command.args([
            "--disable-quic",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ]);
        command.arg(format!(
            "--user-data-dir={}",
            directory.path().join("profile").display()
        ));
        command
            .env_clear()
            .envs(crate::ENVIRONMENT)
            .env("HOME", directory.path())
            .env("COMMANDS", &commands)
            .env("ANSWERS", &answers);
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().context("the browser cannot be started")?;
        // Each waits for the shell to open the other end, in this order.
        let commands = OpenOptions::new().write(true).open(&commands)?;
        let answers = File::open(&answers)?;
        let mut browser = Browser {
            child,
            commands,
            answers: messages(answers),
            session: String::new(),
            last_id: 0,
            exceptions: Vec::new(),
            _directory: directory,
        };
        browser.load(page)?;
        Ok(browser)
    }

    fn load(&mut self, page: &Path) -> Result<()> {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attached = self.call(
            "Target.attachToTarget",
            json!({ "targetId": target["targetId"], "flatten": true }),
        )?;
        self.session = attached["sessionId"].as_str().context("no session")?.to_owned();
        self.call("Runtime.enable", json!({}))?;
        self.call("Page.enable", json!({}))?;
        self.call(
            "Page.navigate",
            json!({ "url": format!("file://{}", page.display()) }),
        )?;
        while self.message()?["method"] != "Page.loadEventFired" {}
        Ok(())
    }

    /// The value of an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let answer = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "returnByValue": true }),
        )?;
        if let Some(exception) = answer.get("exceptionDetails") {
            bail!("{expression}: {exception}");
        }
        Ok(answer["result"]["value"].clone())
    }

    /// Presses and releases a key, by its DOM name.
    pub fn press(&mut self, key: &str) -> Result<()> {
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyDown", "key": key }))?;
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }))?;
        Ok(())
    }

    /// Clicks at the middle of the first element that the selector names.
    pub fn click(&mut self, selector: &str) -> Result<()> {
        let middle = self.evaluate(&format!(
            "(() => {{ const box = document.querySelector({}).getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()",
            json!(selector)
        ))?;
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": middle[0], "y": middle[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Types into what has the focus.
    pub fn type_text(&mut self, text: &str) -> Result<()> {
        self.call("Input.insertText", json!({ "text": text }))?;
        Ok(())
    }

    fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        write!(self.commands, "{message}\0").context("the browser does not listen")?;
        loop {
            let answer = self.message()?;
            if answer["id"] != json!(self.last_id) {
                continue;
            }
            if let Some(error) = answer.get("error") {
                bail!("{method}: {error}");
            }
            return Ok(answer["result"].clone());
        }
    }

    fn message(&mut self) -> Result<Value> {
        let message = self
            .answers
            .recv_timeout(TIME_LIMIT)
            .context("the browser does not answer")?;
        if message["method"] == "Runtime.exceptionThrown" {
            self.exceptions
                .push(message["params"]["exceptionDetails"].to_string());
        }
        Ok(message)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Ok(group) = process::group_of(&self.child) {
            // It may be gone already.
            let _ = killpg(group, Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

/// Messages end with a NUL byte.
fn messages(answers: File) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for message in BufReader::new(answers).split(0).map_while(Result::ok) {
            let parsed = serde_json::from_slice(&message).unwrap_or(Value::Null);
            if sender.send(parsed).is_err() {
                return;
            }
        }
    });
    receiver
}
