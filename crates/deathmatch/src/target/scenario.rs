//! The steps of a visit, from a file: pages, what they need, and pauses between them.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::archive::read_pages;
use super::targets::{Target, read, read_body};
use super::{Request, Url};
use crate::duration::parse as duration;

/// Largest number of requests of a visit.
const REQUESTS_MAX: usize = 10_000;

/// Connections that a browser opens to a server over HTTP/1.1.
const CONNECTIONS: u32 = 6;

/// A visit as a file describes it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its steps, at least one.
    pub steps: Vec<ScenarioStep>,
    /// Connections of a visitor over HTTP/1.1.
    pub connections: u32,
    /// Recorded requests to other servers, which are left out.
    pub others: usize,
}

/// A step of a visit.
#[derive(Clone, Debug)]
pub struct ScenarioStep {
    /// Its name in the figures.
    pub name: String,
    /// The page, and what is requested when its response is complete.
    pub targets: Vec<Target>,
    /// The shortest and the longest pause after it.
    pub pause: [Duration; 2],
}

/// The file, in TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    server: String,
    connections: Option<u32>,
    step: Vec<FileStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileStep {
    name: Option<String>,
    /// As in `GET /`.
    request: String,
    #[serde(default)]
    fields: Vec<String>,
    body: Option<String>,
    #[serde(default)]
    assets: Vec<String>,
    pause: Option<Pause>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Pause {
    Always(String),
    Between([String; 2]),
}

impl Scenario {
    /// Reads a file of steps (TOML), or an archive that a browser has written (HAR 1.2).
    ///
    /// # Errors
    /// The place in the file that cannot be used.
    pub fn read(file: &Path) -> Result<Scenario, String> {
        let failed = |why: String| format!("--scenario {}: {why}", file.display());
        let text = read(file).map_err(|why| format!("--scenario {why}"))?;
        let scenario = if text.trim_start().starts_with('{') {
            let (steps, others) = read_pages(file)?;
            Scenario { steps, connections: CONNECTIONS, others }
        } else {
            parse(&text).map_err(failed)?
        };
        let requests: usize = scenario.steps.iter().map(|step| step.targets.len()).sum();
        match requests {
            0 => Err(failed("it has no step; write one as [[step]]".to_owned())),
            1..=REQUESTS_MAX => Ok(scenario),
            _ => Err(failed(format!("{requests} requests are too many: at most {REQUESTS_MAX}"))),
        }
    }
}

fn parse(text: &str) -> Result<Scenario, String> {
    let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
    let server: Url = file.server.parse().map_err(|e| format!("server: {e}"))?;
    if server.is_websocket || server.path != "/" {
        return Err(format!("server: {server}: write one such as http://127.0.0.1:8080"));
    }
    let connections = file.connections.unwrap_or(CONNECTIONS);
    if !(1..=100).contains(&connections) {
        return Err("connections: write 1 to 100".to_owned());
    }
    let steps =
        file.step.iter().enumerate().map(|(at, step)| {
            step.read(&file.server).map_err(|why| format!("step {}: {why}", at + 1))
        });
    Ok(Scenario { steps: steps.collect::<Result<_, _>>()?, connections, others: 0 })
}

impl FileStep {
    fn read(&self, server: &str) -> Result<ScenarioStep, String> {
        let url = |path: &str| {
            let whole = format!("{}{path}", server.trim_end_matches('/'));
            match path.starts_with('/') {
                true => whole.parse::<Url>(),
                false => Err(format!("{path}: write a path, which begins with /")),
            }
        };
        let (method, path) = self.request.split_once(' ').unwrap_or(("GET", &self.request));
        let body = self.body.as_deref().map(|text| match text.strip_prefix('@') {
            Some(file) => read_body(file).map_err(|e| format!("body = \"@{file}\": {e}")),
            None => Ok(text.as_bytes().to_vec()),
        });
        let request = Request::new(Some(method), &self.fields, body.transpose()?)?;
        let mut targets = vec![Target { url: url(path.trim())?, request }];
        for path in &self.assets {
            targets.push(Target { url: url(path)?, request: Request::new(None, &[], None)? });
        }
        let name = self.name.clone().unwrap_or_else(|| targets[0].name());
        let time = |text: &str| duration(text).map_err(|why| format!("pause: {why}"));
        let pause = match &self.pause {
            None => [Duration::ZERO; 2],
            Some(Pause::Always(text)) => [time(text)?; 2],
            Some(Pause::Between([least, most])) => [time(least)?, time(most)?],
        };
        if pause[0] > pause[1] {
            return Err("pause: write the shorter time first".to_owned());
        }
        Ok(ScenarioStep { name, targets, pause })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_steps_and_names_what_is_wrong() {
        let text = r#"
            server = "https://shop.example"
            [[step]]
            request = "GET /"
            assets = ["/app.css", "/app.js"]
            pause = ["1s", "2.5s"]
            [[step]]
            name = "buy"
            request = "POST /cart"
            fields = ["Content-Type: application/json"]
            body = '{"item": 1}'
            pause = "500ms"
        "#;
        let scenario = parse(text).unwrap();
        let [page, buy] = &scenario.steps[..] else { panic!("two steps") };
        assert_eq!((page.name.as_str(), page.targets.len()), ("GET /", 3));
        assert_eq!(page.pause, [Duration::from_secs(1), Duration::from_millis(2500)]);
        assert_eq!(page.targets[2].url.to_string(), "https://shop.example/app.js");
        assert_eq!((buy.name.as_str(), buy.targets[0].request.body.len()), ("buy", 11));
        assert_eq!((buy.pause, scenario.connections), ([Duration::from_millis(500); 2], 6));
        let step = |step: &str| format!("server = \"http://a\"\n[[step]]\n{step}");
        for (text, why) in [
            (step("request = \"GET x\""), "step 1: x: write a path"),
            (step("request = \"G@T /\""), "step 1: -m G@T"),
            (step("request = \"/\"\npause = \"x\""), "step 1: pause: write a time"),
            (step("request = \"/\"\npause = [\"2s\", \"1s\"]"), "the shorter time first"),
            (step("request = \"/\"\nbody = \"@/no/such\""), "@/no/such"),
            (step("request = \"/\"\nthink = 1"), "unknown field `think`"),
            (step("assets = []"), "missing field `request`"),
            ("server = \"http://a/x\"\nstep = []".to_owned(), "server: http://a/x"),
            ("server = \"ws://a\"\nstep = []".to_owned(), "server: ws://a/"),
            ("server = \"http://a\"\nconnections = 0\nstep = []".to_owned(), "1 to 100"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
