//! Checks the rules of ARCHITECTURE.md about layers, platforms, the runtime, disks and the size of
//! files, and the first words of comments. Each message names the remedy. To change a rule, change
//! it here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/prose.rs"]
mod prose;
#[path = "tidy/source.rs"]
mod source;

use layers::{CONFIG_SRC, HTTP_SRC, IMPORT_SRC, SRC, TREES, Tree};
use source::{Named, Source};

/// The modules of `handler` that are no handlers: what all handlers get and return.
const SHARED_BY_HANDLERS: &[&str] = &[
    "body_buffer",
    "client",
    "http_request",
    "named_file",
    "request",
    "request_fields",
    "resources",
    "spool",
    "wait",
];

/// Names that are allowed, or forbidden, in some directories.
struct Fence {
    names: &'static [&'static str],
    /// Prefixes of paths beneath `crates/hurtle/src/`, or of whole paths, each with its reason.
    places: Places,
    remedy: &'static str,
}

enum Places {
    Only(&'static [(&'static str, &'static str)]),
    Never(&'static [&'static str]),
}

const FENCES: &[Fence] = &[
    Fence {
        names: &["tokio"],
        places: Places::Only(&[
            ("transport/", "the I/O engine itself"),
            ("apps/", "has a thread that informs the workers"),
            ("services/", "sends settings and commands to the workers"),
            ("monitoring/", "has listeners of its own"),
            ("server/", "makes the runtime and its listeners"),
            ("lifecycle/", "waits for signals and for other processes"),
            ("disk", "hands a thread's result to a task"),
            ("clock", "reads the runtime's time"),
            ("rt", "the few calls everyone else needs"),
        ]),
        remedy: "the runtime stays exchangeable: use what `rt`, `clock`, `disk` or `transport` \
                 offer, or add the missing call to `rt.rs`",
    },
    Fence {
        names: &["std::fs", "tokio::fs", "thread::sleep"],
        places: Places::Only(&[
            ("sys/", "is what the others call"),
            ("disk", "its threads wait so that no loop does"),
            ("compress/directory", "runs on the compression threads"),
            ("compress/files", "starts those threads"),
            ("files/lookup", "runs on the disk threads"),
            ("files/listing", "runs on the disk threads"),
            ("observe/", "logs are written by a thread of their own"),
            ("metrics/process", "read on a disk thread"),
            (CONFIG_SRC, "read before the loops start"),
            ("tls/", "certificates are read before the loops start, then by a thread of their own"),
            ("acme/", "runs on a thread of its own"),
            ("wasm/", "components are read before the loops start, or by the thread that reloads"),
            ("sockets/", "removes a socket file before the loops start"),
            ("users", "follows links before root is given up"),
            ("apps/", "has a thread of its own"),
            ("services/certificates", "read before the loops start, or by the thread that reloads"),
            ("monitoring/log_files", "logs are created before the loops start"),
            ("server/simulation/", "only in tests"),
            ("lifecycle/", "runs beside the loops, on threads and in processes of its own"),
            ("explain", "a command: nobody waits but its user"),
            ("crates/hurtle-import/src/htaccess/tree", "a command: nobody waits but its user"),
            ("crates/hurtle-import/src/include", "a command: nobody waits but its user"),
            ("cli", "a command: nobody waits but its user"),
            ("main.rs", "a command: nobody waits but its user"),
        ]),
        remedy: "a loop never waits for a disk: do this in a job on `disk`",
    },
    Fence {
        names: &[
            "tokio",
            "std::fs",
            "std::os",
            "std::thread",
            "SystemTime::now",
            "Instant::now",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "UnixStream",
        ],
        places: Places::Never(&[HTTP_SRC]),
        remedy: "these files turn bytes into values and nothing else: take what is needed as an \
                 argument, act on the result in `hurtle`",
    },
    Fence {
        names: &[
            "tokio",
            "rustls",
            "hyper",
            "thread::sleep",
            "thread::spawn",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "UnixStream",
        ],
        places: Places::Never(&[CONFIG_SRC, IMPORT_SRC]),
        remedy: "a configuration is text and checked types: act on it in `hurtle`",
    },
];

/// Lines of code in a file, tests not counted.
const LINES_MAX: usize = 400;

/// Files that may have `unsafe` blocks, each with its reason. Clippy wants one for each block too.
const UNSAFE: &[(&str, &str)] = &[
    (
        "crates/deathmatch-floors/src/bin/deathmatch-floor-uring/ring.rs",
        "io_uring has no safe interface: the kernel uses memory after the call that names it",
    ),
    (
        "crates/hurtle-heap/src/lib.rs",
        "the C library's call that trims its heap has no safe interface",
    ),
];

/// Paths that exist on one machine only.
const PRIVATE_PATHS: &[&str] = &["/work/", "/home/", "/root/"];

#[test]
fn the_tree_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut handlers = names_in(&root.join(SRC).join("handler"));
    handlers.retain(|name| !SHARED_BY_HANDLERS.contains(&name.as_str()));
    let house = House { handlers };
    let mut faults = Vec::new();
    let mut rust_files = 0;
    for file in ["crates", "docs", "examples", "fuzz", "."]
        .iter()
        .flat_map(|dir| files_beneath(&root.join(dir), *dir != "."))
    {
        let path = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned();
        let path = path.trim_start_matches("./");
        let Ok(text) = fs::read_to_string(&file) else { continue };
        rust_files += usize::from(path.ends_with(".rs"));
        faults.extend(house.faults(path, &text));
    }
    assert!(rust_files > 3, "tidy looked in the wrong place: {}", root.display());
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

struct House {
    /// The modules of `handler`, which must not use each other.
    handlers: BTreeSet<String>,
}

impl House {
    /// Violations in the file at `path` (from the root of the repository), one message each.
    fn faults(&self, path: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        if path.starts_with("crates/") && path.ends_with(".rs") {
            let source = Source::new(path, text);
            faults.extend(opens_with_its_purpose(&source));
            faults.extend(is_short(&source));
            faults.extend(is_safe(&source));
            if path.contains("/src/") {
                faults.extend(knows_no_platform(&source));
            }
            for tree in TREES.iter().filter(|tree| path.starts_with(tree.src)) {
                faults.extend(self.stays_in_its_layer(&source, tree));
            }
            if [SRC, HTTP_SRC, CONFIG_SRC, IMPORT_SRC].iter().any(|src| path.starts_with(src)) {
                faults.extend(FENCES.iter().flat_map(|fence| fence.faults(&source)));
            }
        }
        if prose::is_checked(path) {
            faults.extend(opens_with_a_statement(path, text));
            faults.extend(is_narrow(path, text));
        }
        let is_for_readers = path.ends_with(".md") || path.ends_with(".toml");
        if is_for_readers && !path.contains("/tests/") {
            faults.extend(names_no_machine(path, text));
        }
        faults
    }

    fn stays_in_its_layer(&self, source: &Source<'_>, tree: &Tree) -> Vec<String> {
        let module = module_of(source.path, tree.src);
        let Some(own) = module.first() else { return Vec::new() };
        let layer_of = |module: &str| tree.layers.iter().position(|layer| layer.contains(&module));
        let Some(layer) = layer_of(own) else {
            return vec![fault(source, 1, &unknown_module(own))];
        };
        let mut faults = Vec::new();
        for named in source.paths() {
            if !tree.is_crate() && named.parts.first().is_some_and(|first| first == "crate") {
                continue;
            }
            let Some(used) = resolve(&module, &named) else { continue };
            let Some(top) = used.first() else { continue };
            let message = match layer_of(top) {
                None => unknown_module(top),
                Some(_) if top == own => match self.other_handler(&module, &used) {
                    Some(other) => format!(
                        "handler `{}` uses handler `{other}`: move what they share to handler/mod.rs, \
                         or below to `files` or `answer`",
                        module[1]
                    ),
                    None => continue,
                },
                Some(used) if used < layer => continue,
                Some(_) => format!(
                    "`{own}` uses `{top}`, which is not below it in its layers (tests/tidy/layers.rs): hand the \
                     value down as an argument, or move it to the lowest module that needs it"
                ),
            };
            faults.push(fault(source, named.line, &message));
        }
        faults
    }

    fn other_handler<'u>(&self, module: &[String], used: &'u [String]) -> Option<&'u String> {
        let own = module.get(1)?;
        let other = used.get(1)?;
        let are_handlers = self.handlers.contains(own) && self.handlers.contains(other);
        (used[0] == "handler" && are_handlers && other != own).then_some(other)
    }
}

impl Fence {
    fn faults(&self, source: &Source<'_>) -> Vec<String> {
        let path = source.path.trim_start_matches(SRC);
        let (allowed, places) = match self.places {
            Places::Only(places) => (
                places.iter().any(|(place, _)| path.starts_with(place)),
                format!(
                    "only in {}",
                    places.iter().map(|(p, _)| *p).collect::<Vec<_>>().join(", ")
                ),
            ),
            Places::Never(places) => (
                !places.iter().any(|place| path.starts_with(place)),
                format!("never in {}", places.join(", ")),
            ),
        };
        if allowed {
            return Vec::new();
        }
        let mut faults = Vec::new();
        for named in source.paths() {
            if let Some(name) = self.names.iter().find(|name| named.has(name)) {
                let message = format!("`{name}` is named {places}; {}", self.remedy);
                faults.push(fault(source, named.line, &message));
            }
        }
        faults
    }
}

fn opens_with_its_purpose(source: &Source<'_>) -> Option<String> {
    let missing = !source.text.starts_with("//!");
    let message = "open the file with `//!`: what it is for and what it leaves to others";
    missing.then(|| fault(source, 1, message))
}

fn is_short(source: &Source<'_>) -> Option<String> {
    let lines = source.lines_of_code();
    (lines > LINES_MAX).then(|| {
        let message = format!("{lines} lines of code, {LINES_MAX} at most: split it by noun");
        fault(source, lines, &message)
    })
}

fn is_safe(source: &Source<'_>) -> Vec<String> {
    if UNSAFE.iter().any(|(path, _)| source.path == *path) {
        return Vec::new();
    }
    let found = source.words.iter().filter(|word| word.text == "unsafe");
    let message = "no `unsafe` here: use a safe wrapper (rustix, nix, socket2); a line that \
                   cannot do without goes into a file of UNSAFE (tests/tidy.rs)";
    found.map(|word| fault(source, word.line, message)).collect()
}

fn knows_no_platform(source: &Source<'_>) -> Vec<String> {
    // The crate of one call that some C libraries have.
    let is_exempt = source.path.starts_with("crates/hurtle-heap/src/");
    if is_exempt || source.path.starts_with("crates/hurtle/src/sys/") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let mut words = source.words.iter();
    while let Some(word) = words.next() {
        if word.text != "cfg" && word.text != "cfg_attr" {
            continue;
        }
        let mut depth = 0;
        for inner in words.by_ref() {
            match inner.text.as_str() {
                "(" => depth += 1,
                ")" => depth -= 1,
                "target_os" | "target_family" | "target_vendor" | "target_env" | "unix"
                | "windows" => faults.push(fault(
                    source,
                    inner.line,
                    "systems differ only in crates/hurtle/src/sys/: add a function of one name to \
                     each file there, its contract to sys/mod.rs, and call that",
                )),
                _ => {}
            }
            if depth == 0 && inner.text != "!" {
                break;
            }
        }
    }
    faults
}

fn opens_with_a_statement(path: &str, text: &str) -> Vec<String> {
    let message = |(line, word): (usize, String)| {
        format!(
            "{path}:{line}: a comment opens with `{word}`: say what the item is or does, as in \
             \"Time limit of a read\" or \"`true` if the stream is idle\""
        )
    };
    prose::riddles(text).into_iter().map(message).collect()
}

fn is_narrow(path: &str, text: &str) -> Vec<String> {
    let message = |line| format!("{path}:{line}: a comment is wider than 100 characters: break it");
    prose::wide(text).into_iter().map(message).collect()
}

fn names_no_machine(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(private) = PRIVATE_PATHS.iter().find(|private| line.contains(**private)) {
            let at = at + 1;
            faults.push(format!(
                "{path}:{at}: `{private}` exists on one machine: write a path from the repository's \
                 root, or one a user would have (/srv, /var/www)"
            ));
        }
    }
    faults
}

fn fault(source: &Source<'_>, line: usize, message: &str) -> String {
    format!("{}:{line}: {message}", source.path)
}

fn unknown_module(module: &str) -> String {
    format!(
        "`{module}` is not in the layers (tests/tidy/layers.rs): if it is a new module, give it the lowest place \
         above all it uses; if it is a re-export of lib.rs, name the module it comes from"
    )
}

/// The module path of a file: `files::listing` for `crates/hurtle/src/files/listing/mod.rs`, and
/// the empty path for lib.rs.
fn module_of(path: &str, src: &str) -> Vec<String> {
    let path = path.trim_start_matches(src).trim_end_matches(".rs");
    let parts = path.split('/').filter(|part| !["mod", "lib"].contains(part));
    parts.map(String::from).collect()
}

/// Resolves `named`, used in `module`, to a path from the crate's root; `None` for other crates.
fn resolve(module: &[String], named: &Named) -> Option<Vec<String>> {
    let first = named.parts.first()?.as_str();
    let mut base: &[String] = match first {
        "crate" if named.parts.len() > 1 => &[],
        "super" | "self" if named.parts.len() > 1 => module,
        _ => return None,
    };
    let mut rest = named.parts.as_slice();
    while let Some((keyword, after)) = rest.split_first() {
        match keyword.as_str() {
            "super" => base = base.split_last().map_or(&[], |(_, parent)| parent),
            "self" | "crate" => {}
            _ => break,
        }
        rest = after;
    }
    Some([base, rest].concat())
}

/// The modules in a directory: names of files and folders, without `mod` and without ending.
fn names_in(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()));
    names.filter(|name| name != "mod").collect()
}

/// Every file in a directory, in order, without build output; `deep`: including subdirectories.
fn files_beneath(dir: &Path, deep: bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        if path.is_file() {
            files.push(path);
        } else if deep && path.is_dir() && !path.ends_with("target") {
            files.extend(files_beneath(&path, true));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::{House, LINES_MAX};

    const FINE: &str = "";

    /// A description, the file's path, its text after the first line, and a part of the message.
    const ROWS: &[(&str, &str, &str, &str)] = &[
        ("a lower layer may be used", "serve/h1.rs", "use crate::files::{Key, Store};", FINE),
        ("a higher one may not", "h1/head.rs", "use crate::cgi::response;", "uses `cgi`"),
        ("nor in a group", "files/a.rs", "use crate::{clock, site::Site};", "uses `site`"),
        ("nor a neighbour", "files/a.rs", "use crate::observe::LogRecord;", "uses `observe`"),
        ("nor through super", "clock.rs", "fn f() { super::disk::x() }", "uses `disk`"),
        ("nor in the pipeline", "pipeline/gates.rs", "use super::run::run;", "uses `run`"),
        ("but one below there", "pipeline/run.rs", "use super::gates::pass;", FINE),
        ("nor through two", "files/a.rs", "use super::super::serve::X;", "uses `serve`"),
        ("a module's own parts are its own", "files/a.rs", "use super::cache::Cache;", FINE),
        (
            "comments and texts use nothing",
            "h1/a.rs",
            "/* crate::site */ // crate::site\nconst A: &str = r#\"crate::site::\"#; const B: char = '\"';",
            FINE,
        ),
        (
            "tests may reach up",
            "h1/a.rs",
            "#[cfg(test)]\nmod tests { use crate::site::Site; }",
            FINE,
        ),
        (
            "but nothing hides below a test helper",
            "h1/a.rs",
            "#[cfg(test)]\nmod help;\nuse crate::cgi::response;",
            "uses `cgi`",
        ),
        ("a new module needs a layer", "quic.rs", "", "not in the layers"),
        (
            "a re-export is not a module",
            "site.rs",
            "use crate::Config;",
            "`Config` is not in the layers",
        ),
        (
            "handlers do not know each other",
            "handler/fixed.rs",
            "use super::directory;",
            "handler `directory`",
        ),
        (
            "not from deeper either",
            "handler/proxy/a.rs",
            "fn f() { crate::handler::fixed::f() }",
            "handler `fixed`",
        ),
        ("what they share is theirs", "handler/fixed.rs", "use super::Outcome;", FINE),
        (
            "and so are the modules that they share",
            "handler/fixed.rs",
            "use super::request::RequestContext;",
            FINE,
        ),
        ("their parent knows them all", "handler/mod.rs", "use self::directory::Directory;", FINE),
        ("a crate's root lists, it does not use", "lib.rs", "pub use crate::site::Site;", FINE),
        ("the runtime is fenced", "serve/mod.rs", "use tokio::time;", "named only in"),
        (
            "in code too",
            "files/a.rs",
            "fn f() { tokio::spawn(x) }",
            "add the missing call to `rt.rs`",
        ),
        ("and free where it lives", "transport/plain.rs", "use tokio::net::TcpStream;", FINE),
        ("a loop opens no file", "serve/mod.rs", "use std::fs::File;", "a job on `disk`"),
        (
            "however it is written",
            "files/a.rs",
            "use std::{fs::{self, File}, io};",
            "a job on `disk`",
        ),
        (
            "a loop does not sleep",
            "serve/mod.rs",
            "fn f() { std::thread::sleep(x) }",
            "a job on `disk`",
        ),
        ("the pool's jobs do both", "disk.rs", "use std::fs::File;", FINE),
        (
            "a parser reads no clock",
            "semantics/date.rs",
            "fn f() { SystemTime::now() }",
            "as an argument",
        ),
        (
            "but it may name a time or an address",
            "semantics/host.rs",
            "use std::net::Ipv6Addr; use std::time::SystemTime;",
            FINE,
        ),
        ("a parser knows no socket", "h1/a.rs", "use std::net::TcpStream;", "as an argument"),
        ("nor does the configuration", "config/a.rs", "use std::net::TcpStream;", "checked types"),
        ("which reads files", "config/include.rs", "use std::fs;", FINE),
        (
            "systems differ in sys",
            "files/a.rs",
            "#[cfg(target_os = \"linux\")] fn f() {}",
            "add a function of one name",
        ),
        (
            "whatever the spelling",
            "files/a.rs",
            "fn f() { if cfg!(all(unix, x)) {} }",
            "add a function of one name",
        ),
        (
            "in every attribute",
            "files/a.rs",
            "#[cfg_attr(not(windows), x)] fn f() {}",
            "add a function of one name",
        ),
        ("and only there", "sys/mod.rs", "#[cfg(target_os = \"linux\")] mod linux;", FINE),
        ("a test configuration is no system", "files/a.rs", "#[cfg(test)] fn unix() {}", FINE),
        ("no unsafe code", "sys/linux.rs", "fn f() { unsafe { g() } }", "a safe wrapper"),
        ("a lint's name is not code", "lib.rs", "#![forbid(unsafe_code)]", FINE),
    ];

    #[test]
    fn each_rule_finds_its_violations() {
        for (sentence, path, body, expected) in ROWS {
            let text = format!("//! A file.\n{body}\n");
            let is_http = ["semantics/", "h1/"].iter().any(|dir| path.starts_with(dir));
            let (src, path) = match path.strip_prefix("config/") {
                Some(path) => (super::CONFIG_SRC, path),
                None if is_http => (super::HTTP_SRC, *path),
                None => (super::SRC, *path),
            };
            check(sentence, &format!("{src}{path}"), &text, expected);
        }
    }

    #[test]
    fn a_file_says_what_it_is_for() {
        check("no purpose", "crates/xtask/src/main.rs", "fn main() {}\n", "with `//!`");
        check("a comment is no purpose", "crates/x/tests/a.rs", "// A.\nfn f() {}\n", "with `//!`");
    }

    #[test]
    fn a_file_is_short() {
        let code = |lines| format!("//! A.\n\n{}", "// why\n\nfn f() {}\n".repeat(lines));
        let path = "crates/xtask/src/a.rs";
        check("as long as it may be", path, &code(LINES_MAX), FINE);
        check("one more", path, &code(LINES_MAX + 1), "split it by noun");
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", code(LINES_MAX));
        check("tests do not count", path, &(code(LINES_MAX) + &tests), FINE);
        let hidden = format!("#[cfg(test)]\nmod help;\n{}", code(1));
        check("what follows a helper does", path, &(code(LINES_MAX) + &hidden), "split it by noun");
    }

    #[test]
    fn comments_open_with_a_statement() {
        let path = "crates/xtask/src/a.rs";
        for comment in ["/// Time limit.", "// A limit.\n// What follows.", "//! Offer", "//\n"] {
            check("a statement", path, &format!("//! A.\n\n{comment}\n"), FINE);
        }
        for comment in ["/// What it is.", "    // Of a body.", "/// A.\n///\n/// How."] {
            check("a riddle", path, &format!("//! A.\n\n{comment}\n"), "a comment opens with");
        }
        check("the first line", path, "//! Who serves.\n", ":1: a comment opens with `Who`");
        check("a paragraph", path, "//! A.\n//!\n//! The same file.\n", ":3: a comment opens");
    }

    #[test]
    fn comments_are_as_narrow_as_code() {
        let (path, words) = ("crates/xtask/src/a.rs", "word ".repeat(19));
        check("100 characters", path, &format!("//! A.\n\n// {words}ab\n"), FINE);
        check("one more", path, &format!("//! A.\n\n// {words}abc\n"), ":3: a comment is wider");
        check("an address", path, &format!("//! A.\n\n// {}\n", "a".repeat(200)), FINE);
        check("code", path, &format!("//! A.\n\nconst A: &str = \"{words}{words}\";\n"), FINE);
    }

    #[test]
    fn unsafe_code_has_its_files() {
        let code = "//! A.\n\nfn f() { unsafe { g() } }\n";
        for (path, _) in super::UNSAFE {
            check("where it is needed", path, code, FINE);
        }
        check("beside it", "crates/deathmatch-floors/src/lib.rs", code, "a safe wrapper");
    }

    #[test]
    fn documents_name_no_machine() {
        check("a home", "README.md", "cd /home/me/hurtle\n", "README.md:1:");
        check("a config", "examples/a.toml", "\nroot = \"/root/x\"\n", "examples/a.toml:2:");
        check("a user's path", "README.md", "root = \"/srv/www\"\n", FINE);
    }

    fn check(sentence: &str, path: &str, text: &str, expected: &str) {
        let handlers = ["fixed", "directory", "proxy"].map(String::from).into();
        let found = House { handlers }.faults(path, text).join("\n");
        let right = if expected == FINE { found.is_empty() } else { found.contains(expected) };
        assert!(right, "{sentence}: {path}: expected {expected:?}, found {found:?}");
    }
}
