//! Properties of every configuration and every text: a printed configuration is read back equal,
//! the schema describes what `check` does, and nothing panics.

mod beside;

use std::path::Path;

use proptest::prelude::*;

use self::beside::{
    basic, is_of_auth, with_acme, with_client_auth, with_dictionary, with_on_demand, with_tls,
};
use super::schema::{Kind, SECTIONS, Section};
use super::try_file::TryFile;
use super::types::*;
use super::{check, print};

const FILE: &str = "/etc/hurtle/hurtle.toml";

/// A valid configuration with every kind of key.
const FULL: &str = include_str!("full.toml");

fn checked(text: &str) -> Config {
    check(text, Path::new(FILE)).unwrap_or_else(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        panic!("{text}\n{}", problems.join("\n"))
    })
}

#[test]
fn a_configuration_is_parsed() {
    let config = checked(FULL);
    assert_eq!(config.listen[3], Listen::Unix("/etc/hurtle/hurtle.sock".into()));
    assert_eq!((config.backlog, config.cache_bytes), (1_024, 0));
    let site = &config.sites[0];
    assert!(site.default && !config.sites[1].default);
    assert_eq!(site.headers[0].set[0].0, "x-b", "fields stay in the order written");
    assert_eq!(site.mounts[2].path, "/moved");
    let MountHandler::Files(files) = &site.mounts[0].handler else { panic!("files") };
    assert_eq!(files.root, Path::new("/etc/hurtle/public"));
    assert_eq!(files.try_files[3], TryFile::Status(http::StatusCode::NOT_FOUND));
}

#[test]
fn a_printed_configuration_is_read_back_equal() {
    let table = [
        ("every kind of key", checked(FULL)),
        ("the shorthand", checked("root = \".\"\nlisting = true")),
        ("a directory from the command line", Config::for_directory("/srv/a \"b\"\\\u{7}".into())),
    ];
    for (sentence, config) in table {
        let text = print(&config);
        assert_eq!(checked(&text), config, "{sentence}:\n{text}");
    }
}

/// `true` for a key that needs `proxy`.
fn key_goes_with_proxy(name: &str) -> bool {
    super::schema_mount::MOUNT.key(name).is_some_and(|key| key.with.first() == Some(&"proxy"))
}

/// A configuration in which one key of a section is set to `value` or unset, with the keys it
/// needs.
fn with_key(section: &Section, name: &str, value: Option<&str>) -> String {
    let line = value.map_or(String::new(), |value| format!("{name} = {value}\n"));
    let site = "[[site]]\nhosts = \"a.example\"\n";
    match (section.header, name) {
        ("", "root") => line,
        ("", "defaults") => format!("{line}{site}[[site.mount]]\nfiles = \".\""),
        ("[defaults]", _) => {
            format!("{site}[[site.mount]]\nfiles = \".\"\n[defaults]\n{line}")
        }
        ("", "listen_tls") => format!(
            "{line}{site}[site.tls]\ncertificate = \"c.pem\"\n[[site.mount]]\nfiles = \".\""
        ),
        ("", "acme" | "local_authority") | ("[acme]" | "[[acme.authority]]", _) => {
            with_acme(section, name, &line)
        }
        ("[site.tls]", "on_demand") => with_on_demand("", &line),
        ("[site.tls.on_demand]", name) => with_on_demand(name, &line),
        ("[site.tls]", name) => with_tls(name, &line),
        ("[[site]]", "tls") => format!("{site}# {line}[[site.mount]]\nfiles = \".\""),
        ("[compress]", "directory_bytes") => {
            format!("root = \".\"\n[compress]\ndirectory = \".\"\n{line}")
        }
        ("[compress]", "max_bytes") => format!("root = \".\"\n[compress]\nmin_bytes = 0\n{line}"),
        ("[proxy_protocol]", "on") => {
            format!("root = \".\"\n[proxy_protocol]\nfrom = \"10.0.0.0/8\"\n{line}")
        }
        ("", "site") => format!("root = \".\"\n# {line}"),
        ("", name) if name.starts_with("store_") => {
            format!("{line}store = \"rediss://a\"\nroot = \".\"")
        }
        ("", "trusted_proxy_fields") => {
            format!("root = \".\"\ntrusted_proxies = \"10.0.0.0/8\"\n{line}")
        }
        ("", "group") => format!("root = \".\"\nuser = \"u\"\n{line}"),
        ("", _) => format!("root = \".\"\n{line}"),
        ("[[site]]", name) if is_of_auth(name) => {
            format!("{site}{}[[site.mount]]\nfiles = \".\"", basic(name, &line))
        }
        ("[[site.mount]]", name) if is_of_auth(name) => {
            format!("{site}[[site.mount]]\nfiles = \".\"\n{}", basic(name, &line))
        }
        ("[[site.mount]]", "client_auth") => with_client_auth(&line),
        ("[[site.mount]]", "uploads") => {
            format!("{site}[[site.mount]]\nfiles = \".\"\nauth = \"none\"\n{line}")
        }
        ("[site.mount.uploads]", _) => {
            let mount = "[[site.mount]]\nfiles = \".\"\nauth = \"none\"\n";
            format!("{site}{mount}[site.mount.uploads]\n{line}")
        }
        ("[[site.mount]]", "name" | "otherwise") => {
            let (own, otherwise) = match value {
                None => ("path = \"/app\"\n", ""),
                Some(_) => ("name = \"app\"\n", "otherwise = \"app\"\n"),
            };
            let files = "[[site.mount]]\nfiles = \".\"\n";
            format!("{site}{files}{otherwise}[[site.mount]]\n{own}respond = \"\"")
        }
        ("[[site.mount]]", "archive") => {
            format!("{site}[[site.mount]]\nfiles = \".\"\nlisting = true\n{line}")
        }
        ("[site.mount.archive]", _) => {
            let mount = "[[site.mount]]\nfiles = \".\"\nlisting = true\n";
            format!("{site}{mount}[site.mount.archive]\n{line}")
        }
        ("[[site.mount.dictionary]]", name) => format!("{site}{}", with_dictionary(name, &line)),
        ("[site.mount.cache]", name) => {
            let beside = if name == "disk_size" { "disk = \".\"\n" } else { "" };
            let mount = "[[site.mount]]\nproxy = \"http://a\"\n";
            format!("{site}{mount}[site.mount.cache]\n{beside}{line}")
        }
        ("[[site.mount.proxy]]", name) => {
            let url = if name == "url" { "" } else { "url = \"http://b\"\n" };
            let first = "[[site.mount.proxy]]\nurl = \"http://a\"\n";
            format!("{site}[[site.mount]]\n{first}[[site.mount.proxy]]\n{url}{line}")
        }
        ("[site.mount.request_fields]", _) => {
            format!(
                "{site}[[site.mount]]\nproxy = \"http://a\"\n[site.mount.request_fields]\n{line}"
            )
        }
        ("[site.mount.ejection]", name) => {
            let beside = if name == "max_time" { "time = \"1ms\"\n" } else { "" };
            let mount = "[[site.mount]]\nproxy = \"http://a\"\n";
            format!("{site}{mount}[site.mount.ejection]\n{beside}{line}")
        }
        ("[[site.mount]]", "hash_header" | "cookie" | "cookie_secret") => {
            let method = if name == "hash_header" { "hash-header" } else { "cookie" };
            format!("{site}[[site.mount]]\nproxy = \"http://a\"\nbalance = \"{method}\"\n{line}")
        }
        ("[site.mount.upstream_tls]", name) => {
            let beside = if name == "key" { "certificate = \"c.pem\"\n" } else { "" };
            let mount = "[[site.mount]]\nproxy = \"https://a\"\n";
            format!("{site}{mount}[site.mount.upstream_tls]\n{beside}{line}")
        }
        ("[site.forward_tls]", name) => {
            let beside = if name == "key" { "certificate = \"c.pem\"\n" } else { "" };
            let auth = "auth = \"forward\"\nforward = \"https://a\"\n";
            let mount = "[[site.mount]]\nfiles = \".\"\n";
            format!("{site}{auth}[site.forward_tls]\n{beside}{line}{mount}")
        }
        ("[[site.mount]]", "upstream_queue" | "upstream_queue_timeout") => {
            let proxy = "proxy = { url = \"http://a\", max_connections = 1 }";
            format!("{site}[[site.mount]]\n{proxy}\n{line}")
        }
        ("[[site.mount]]", "grpc_web") => {
            format!("{site}[[site.mount]]\nproxy = \"h2c://a\"\n{line}")
        }
        ("[site.mount.wasm]", name) => {
            let file = if name == "file" { "" } else { "file = \"a.wasm\"\n" };
            format!("{site}[[site.mount]]\n[site.mount.wasm]\n{file}{line}")
        }
        ("[[site.mount]]", "upstream_tls") => {
            format!("{site}[[site.mount]]\nproxy = \"https://a\"\n{line}")
        }
        ("[[site.rate_limit]]" | "[[site.mount.rate_limit]]", name) => {
            let requests = if name == "requests" { "" } else { "requests = \"5/s\"\n" };
            let header = section.header;
            format!("{site}[[site.mount]]\nfiles = \".\"\n{header}\n{requests}{line}")
        }
        ("[site.cors]" | "[site.mount.cors]", name) => {
            let origins = if name == "origins" { "" } else { "origins = \"http://a\"\n" };
            let header = section.header;
            format!("{site}[[site.mount]]\nfiles = \".\"\n{header}\n{origins}{line}")
        }
        ("[[site.mount]]", "object_store") => {
            format!("{site}[[site.mount]]\nfiles = \"s3://bucket\"\n{line}")
        }
        ("[site.mount.object_store]", name) => {
            let scheme = if name == "account" { "az" } else { "s3" };
            let cache = if name == "cache_dir" { "" } else { "cache_dir = \"cache\"\n" };
            let mount = format!("{site}[[site.mount]]\nfiles = \"{scheme}://bucket\"\n");
            format!("{mount}{}\n{cache}{line}", section.header)
        }
        ("[[site.mount]]", "queue" | "queue_timeout") => {
            format!("{site}[[site.mount]]\nfiles = \".\"\nconcurrency = 1\n{line}")
        }
        ("[[site]]", "listen") => {
            format!(
                "listen = [\"127.0.0.1:80\", \"127.0.0.1:8081\"]\n{site}{line}[[site.mount]]\nfiles = \".\""
            )
        }
        ("[[site]]", "hosts") => {
            format!("[[site]]\n{line}default = true\n[[site.mount]]\nfiles = \".\"")
        }
        ("[[site]]", "mount") => {
            format!("{site}[[site.rule]]\nmatch = \"*\"\nrewrite = \"/\"\n# {line}")
        }
        ("[[site]]", _) => format!("{site}{line}[[site.mount]]\nfiles = \".\""),
        ("[[site.rule]]", "redirect" | "rewrite") => {
            format!("{site}[[site.rule]]\nmatch = \"/*\"\n{line}")
        }
        ("[[site.rule]]", "match") => format!("{site}[[site.rule]]\n{line}redirect = \"/\""),
        ("[site.mount.match]", _) => {
            format!("{site}[[site.mount]]\nfiles = \".\"\n[site.mount.match]\n{line}")
        }
        ("[[site.rule]]", _) => {
            format!("{site}[[site.rule]]\nmatch = \"/*\"\nredirect = \"/\"\n{line}")
        }
        ("[[site.header]]", _) => {
            let other = if name == "set" { "remove = \"a\"" } else { "set = {}" };
            format!("{site}[[site.header]]\n{line}{other}\n[[site.mount]]\nfiles = \".\"")
        }
        (
            "[[site.mount]]",
            "files" | "proxy" | "fastcgi" | "uwsgi" | "cgi" | "wasm" | "redirect" | "respond"
            | "abort",
        ) => {
            format!("{site}[[site.mount]]\n{line}")
        }
        ("[[site.mount]]", "status") => format!("{site}[[site.mount]]\nredirect = \"/\"\n{line}"),
        ("[[site.mount]]", name) if name.starts_with("health_") => {
            format!("{site}[[site.mount]]\nproxy = \"http://a\"\nhealth = \"/\"\n{line}")
        }
        ("[[site.mount]]", name) if key_goes_with_proxy(name) => {
            format!("{site}[[site.mount]]\nproxy = \"http://a\"\n{line}")
        }
        (
            "[[site.mount]]",
            "root" | "suffix" | "keep_connections" | "params" | "real_path" | "front_controller"
            | "front_for_scripts",
        ) => format!("{site}[[site.mount]]\nfastcgi = \"a:1\"\n{line}"),
        ("[[site.mount]]", "cpu_time" | "memory" | "open_files" | "processes") => {
            format!("{site}[[site.mount]]\ncgi = \".\"\n{line}")
        }
        ("[[site.mount]]", "content_type") => {
            format!("{site}[[site.mount]]\nrespond = \"\"\n{line}")
        }
        ("[[site.mount]]", _) => format!("{site}[[site.mount]]\nfiles = \".\"\n{line}"),
        ("[access_log]", "fields") => {
            format!("root = \".\"\n[access_log]\nformat = \"json\"\n{line}")
        }
        ("[access_log]" | "[error_log]", "rotate_bytes" | "rotate_age") => {
            format!("root = \".\"\n{}\npath = \"a.log\"\n{line}", section.header)
        }
        ("[access_log]" | "[error_log]", "keep") => {
            let beside = "path = \"a.log\"\nrotate_age = \"1h\"";
            format!("root = \".\"\n{}\n{beside}\n{line}", section.header)
        }
        (header, _) => format!("root = \".\"\n{header}\n{line}"),
    }
}

/// `true` unless the key needs a feature that is off.
fn is_built(section: &Section, name: &str) -> bool {
    let is_of_stores = section.header == "[site.mount.object_store]" || name == "object_store";
    hurtle_objects::IS_BUILT || !is_of_stores
}

#[test]
fn every_example_is_valid_and_every_default_is_documented() {
    for section in SECTIONS {
        for key in section.keys().filter(|key| is_built(section, key.name)) {
            let example = checked(&with_key(section, key.name, Some(key.example)));
            if let Some(default) = key.default_value() {
                let written = checked(&with_key(section, key.name, Some(&default)));
                let absent = checked(&with_key(section, key.name, None));
                assert_eq!(written, absent, "{} {}", section.header, key.name);
                // The value of "auto" may equal the example on this machine.
                let exempt = matches!(key.kind, Kind::Table(_) | Kind::AutoOrInteger(..));
                assert!(exempt || example != absent, "{}: the example changes nothing", key.name);
            }
        }
    }
}

#[test]
fn every_range_is_enforced_at_both_ends() {
    for section in SECTIONS {
        for key in section.keys().filter(|key| is_built(section, key.name)) {
            let (least, most, unit) = match key.kind {
                // Only five values are valid; golden files cover them.
                Kind::Integer(301, _) => continue,
                Kind::Integer(least, most)
                | Kind::AutoOrInteger(least, most)
                | Kind::TrueOrInteger(least, most) => (least, most, ""),
                Kind::Size(least, most) => (least, most, " B"),
                Kind::Time(least, most) => (least, most, "ms"),
                _ => continue,
            };
            let written = |n: i128| match unit {
                "" => n.to_string(),
                unit => format!("\"{n}{unit}\""),
            };
            let ends = [(least.into(), true), (most.into(), true)];
            let beyond = [(i128::from(least) - 1, false), (i128::from(most) + 1, false)];
            for (n, good) in ends.into_iter().chain(beyond) {
                let mut text = with_key(section, key.name, Some(&written(n)));
                if key.name == "status" {
                    text = text.replace("redirect = \"/\"", "respond = \"\"");
                }
                let found = check(&text, Path::new(FILE));
                assert_eq!(found.is_ok(), good, "{text}{found:?}");
            }
        }
    }
}

/// A piece of text that may occur in a configuration.
fn piece() -> impl Strategy<Value = String> {
    let known: Vec<String> = (SECTIONS.iter())
        .flat_map(|section| {
            let header = format!("\n{}\n", section.header);
            let lines = section.keys().map(|key| format!("{} = {}\n", key.name, key.example));
            lines.chain([header]).collect::<Vec<_>>()
        })
        .collect();
    let marks = prop::sample::select(vec![
        "\"",
        "'''",
        "\"\"\"",
        "{",
        "}",
        "[",
        "]",
        "[[",
        "]]",
        "=",
        ".",
        ",",
        "\n",
        "#",
        "\\u",
        "\0",
        "*",
        "é",
        "-1",
        "1e400",
        "0x",
        "1979-05-27",
        "inf",
        "{1}",
        "%",
        "\u{feff}",
        "\r",
        "=\n",
    ]);
    prop_oneof![
        4 => prop::sample::select(known),
        2 => marks.prop_map(str::to_owned),
        1 => "[a-z_.]{1,8}( = )?",
        1 => any::<String>(),
    ]
}

/// Checks a text; asserts that nothing panics and that a refusal has problems.
fn check_without_panic(text: &str) {
    match check(text, Path::new("hurtle.toml")) {
        Ok(config) => assert_eq!(check(&print(&config), Path::new(FILE)), Ok(config)),
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason: {text:?}");
            for problem in problems {
                let line = problem.to_string();
                assert!(!line.contains('\n'), "a problem is one line: {line:?}");
                if let Some(position) = problem.position {
                    assert!(position.line <= text.split('\n').count(), "{line}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        check_without_panic(&text);
    }

    #[test]
    fn any_heap_of_pieces_is_read_or_refused(pieces in prop::collection::vec(piece(), 0..40)) {
        check_without_panic(&pieces.concat());
    }

    #[test]
    fn a_good_text_with_a_hole_and_a_patch_is_read_or_refused(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..20usize, piece()), 1..4),
    ) {
        let mut chars: Vec<char> = FULL.chars().collect();
        for (at, removed, patch) in edits {
            let at = at.index(chars.len());
            let end = (at + removed).min(chars.len());
            chars.splice(at..end, patch.chars());
        }
        check_without_panic(&chars.into_iter().collect::<String>());
    }
}

#[test]
fn depth_and_length_do_not_overflow() {
    let table = [
        ("nested lists", format!("a = {}", "[".repeat(100_000))),
        ("nested tables", format!("a = {}", "{a=".repeat(100_000))),
        ("a long dotted key", format!("{}a = 1", "a.".repeat(100_000))),
        ("a deep header", format!("[{}a]", "a.".repeat(100_000))),
        ("many sites", "[[site]]\n".repeat(10_000)),
        ("a long line of faults", "\u{1}".repeat(10_000)),
    ];
    for (sentence, text) in table {
        let problems = check(&text, Path::new(FILE)).expect_err(sentence);
        assert!(problems.len() <= super::bounds::PROBLEMS_MAX + 1, "{sentence}");
    }
}
