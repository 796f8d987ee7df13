//! Browser tests of the example site.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::child::{Child, PATIENCE, eventually, hurtle};
use crate::support::Dir;
use crate::support::coding::text;

pub(crate) const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

const QUIET: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--v=0",
];

#[test]
fn the_example_site_loads_in_a_browser_without_console_errors() {
    let Some(browser) = browser() else {
        println!("skipped: none of {BROWSERS:?} is installed");
        return;
    };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hurtle.toml");
    let mut command = hurtle();
    command.arg("--config").arg(example).args(["--listen", "127.0.0.1:0", "--access-log", "off"]);
    let child = Child::start(&mut command);
    let faulty = Dir::new(&[("index.html", "<h1>Faulty</h1><script>nonsense()</script>")]);
    let other = Child::serve(&faulty, &[]);
    let dropped = Dir::new(&[("report.txt", "")]);
    let uploads = Child::serve(&dropped, &["--upload", "--auth", "none"]);
    let rows = [
        (&child, "/", "<title>Tern Point Lighthouse</title>", false),
        (&child, "/about.html", "<title>About", false),
        // A directory without an index file: the server's own listing.
        (&child, "/files/", "<table", false),
        // Its script has made the upload form a place to drop files.
        (&uploads, "/", "class=\"upload drop\"", false),
        (&child, "/no-such-page", "<h1", false),
        // Proves that the test sees errors on the console.
        (&other, "/", "<h1>Faulty</h1>", true),
    ];
    for (server, path, expected, complains) in rows {
        let (page, said) = visit(browser, &format!("http://{}{path}", server.address()));
        assert!(page.contains(expected), "{path}: {page}\n{said}");
        let console: Vec<_> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert_eq!(!console.is_empty(), complains, "{path}: {console:#?}");
    }
}

/// Loads version 1 of a script, then version 2 until it is a difference; shows the lengths.
///
/// The browser's clock skips pauses, so it is the number of requests that gives the server time.
const VERSIONS_PAGE: &str = "<title>Versions</title><script type=module>
const get = async (name) => (await (await fetch(name, { cache: 'no-cache' })).text()).length;
const first = await get('/app.1.js');
for (let n = 0; n < 10_000; n += 1) {
  const response = await fetch('/app.2.js?' + n);
  const length = (await response.text()).length;
  if (response.headers.get('Content-Encoding') === 'dcz') {
    document.title = `${first} ${length} by difference`;
    break;
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
}
await fetch('/end');
</script>";

#[test]
fn a_browser_takes_a_later_version_as_the_difference() {
    let Some(browser) = browser() else {
        println!("skipped: none of {BROWSERS:?} is installed");
        return;
    };
    let version = |n: u32| text(40_000, 1) + &text(200, n) + &text(20_000, 2);
    let dir = Dir::new(&[
        ("index.html", VERSIONS_PAGE),
        ("app.1.js", &version(11)),
        ("app.2.js", &version(12)),
    ]);
    // A server that has given up root opens the log as its new user.
    fs::set_permissions(dir.path(".."), fs::Permissions::from_mode(0o777)).unwrap();
    let child = Child::configured(
        &dir,
        "[[site]]\n[[site.header]]\nmatch = '*.js'\nset = { Cache-Control = 'max-age=9999' }\n\
         [[site.mount]]\nfiles = '{root}'\n[[site.mount.dictionary]]\nmatch = 'app.*.js'\n\
         [access_log]\nformat = 'combined'\npath = '{root}/../access.log'\n",
    );
    let url = format!("http://localhost:{}/", child.address().port());
    let (page, said) = visit_for(browser, &url, &["--virtual-time-budget=300000"]);
    assert!(page.contains("<title>60200 60200 by difference</title>"), "{page}\n{said}");
    // The access log has the bytes of the body.
    let is_small = |line: &str| {
        let rest = line.split("\" 200 ").nth(1).unwrap_or_default();
        rest.split(' ').next().unwrap().parse().is_ok_and(|bytes: u64| bytes < 1_000)
    };
    eventually("the log has a small response", || {
        let log = fs::read_to_string(dir.path("../access.log")).unwrap_or_default();
        log.lines().any(|line| line.contains(" /app.2.js?") && is_small(line))
    });
}

/// Returns the name of an installed browser.
pub(crate) fn browser() -> Option<&'static str> {
    let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    BROWSERS.iter().find(is_there).copied()
}

/// Loads a page in a browser; returns it after scripts and styles have run, with the browser's log.
fn visit(browser: &str, url: &str) -> (String, String) {
    visit_for(browser, url, &[])
}

/// Loads a page in a browser with further arguments.
pub(crate) fn visit_for(browser: &str, url: &str, arguments: &[&str]) -> (String, String) {
    let profile = Dir::new(&[]);
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string()).arg(browser).args(QUIET).args(arguments);
    command.arg(format!("--user-data-dir={}", profile.root().display()));
    let output = command.args(["--dump-dom", url]).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
