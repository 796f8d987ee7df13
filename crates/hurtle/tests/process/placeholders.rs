//! Placeholders of a configuration, `{env.NAME}` and `{file.PATH}`, and what is shown of their
//! values.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::child::{Child, eventually, hurtle, write_config};
use crate::support::Dir;

const SECRET: &str = "correct-horse-battery";

/// Runs a command of hurtle with some variables; returns the exit code and what it prints.
fn run(arguments: &[&str], config: &PathBuf) -> (Option<i32>, String) {
    let mut command = hurtle();
    command.args(arguments).arg(config).env("TEXT", "hello").env("SECRET", SECRET).env("EMPTY", "");
    let output = command.env("NUMBER", "7").env_remove("UNSET").output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn values_come_from_the_environment_and_from_files() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    dir.write("../secret", "one\n");
    let config = write_config(
        &dir,
        "drain = '{env.SECONDS}'\nhttp3 = '{env.HTTP3:false}'\n[[site]]\nhosts = '{env.HOSTS}'\n\
         [[site.mount]]\npath = '/text'\nstatus = '{env.STATUS}'\n\
         respond = '{env.TEXT}, {env.UNSET:a default}, {{env.TEXT}, {\"a\": {}}'\n\
         [[site.mount]]\npath = '/file'\nrespond = '<{file.secret}>'\n\
         [[site.mount]]\nfiles = '{env.ROOT}'\n",
    );
    let mut command = hurtle();
    command.arg("--config").arg(config).env_remove("UNSET").env("ROOT", dir.root());
    command.env("TEXT", "{env.STATUS}").env("STATUS", "203").env("SECONDS", "3");
    let child = Child::start(command.env("HOSTS", "a, b"));
    for host in ["a", "b"] {
        let mut client = child.connect();
        client.send(format!("GET /text HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let answer = client.response();
        assert_eq!(answer.status, 203);
        let want = "{env.STATUS}, a default, {env.TEXT}, {\"a\": {}}";
        assert_eq!(answer.text(), want, "a value is not looked through again");
    }
    let file = || {
        let mut client = child.connect();
        client.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
        client.response().text().to_owned()
    };
    assert_eq!(file(), "<one>");
    dir.write("../secret", "two");
    child.signal(Signal::HUP);
    eventually("a reload reads the file anew", || file() == "<two>");
}

#[test]
fn problems_name_the_placeholder_and_never_its_value() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    let rows = [
        (
            "a variable that is not set",
            "user = '{env.UNSET}'",
            ":1:8: user: the environment variable UNSET is not set; set it, or write a default: \
             {env.UNSET:value}",
        ),
        (
            "a file that does not exist",
            "user = '{file.gone}'",
            "gone: No such file or directory (os error 2); relative paths are relative to the \
             configuration file",
        ),
        ("a directory", "user = '{file..}'", ": it is not a file"),
        (
            "no end",
            "user = '{env.TEXT'",
            ":1:8: user: \"{env.TEXT\" has no end; write a } behind it",
        ),
        ("no name", "user = '{env.}'", ":1:8: user: \"\" is no name of a variable"),
        ("a value of another type", "drain = '{env.SECRET}'", ":1:9: drain: \"{env.SECRET}\""),
        (
            "a number out of range",
            "backlog = '{env.NUMBER}0000000'",
            ":1:11: backlog: out of range; write 1 to 65535",
        ),
        (
            "an empty guard",
            "trusted_proxies = '{env.EMPTY}'",
            ":1:19: trusted_proxies: \"{env.EMPTY}\" is empty; an empty value would guard nothing",
        ),
        (
            "an empty guard by a default",
            "trusted_proxies = ['10.0.0.0/8', '{env.UNSET:}']",
            ":1:34: trusted_proxies[1]: \"{env.UNSET:}\" is empty",
        ),
        (
            "a guard of nothing but commas",
            "trusted_proxies = '{env.UNSET:}, {env.EMPTY}'",
            ":1:19: trusted_proxies: \"{env.UNSET:}, {env.EMPTY}\" is empty",
        ),
    ];
    for (sentence, line, want) in rows {
        let config = dir.path("../problem.toml");
        fs::write(&config, format!("{line}\nroot = {:?}\n", dir.root())).unwrap();
        let (code, said) = run(&["check"], &config);
        assert_eq!(code, Some(2), "{sentence}: {said}");
        assert!(said.contains(want), "{sentence}: {said}");
        assert!(!said.contains(SECRET), "{sentence}: {said}");
        assert_eq!(said.lines().filter(|line| line.contains("problem.toml:")).count(), 1, "{said}");
    }
}

#[test]
fn networks_of_a_variable_may_have_spaces_between_them() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    let config = dir.path("../networks.toml");
    let text = "trusted_proxies = '{env.NETS}'\n[[site]]\n[[site.mount]]\nrespond = 'a'\n\
                match = { not = { peer = '{env.NETS}' } }\nallow = '{env.NETS}'\n";
    fs::write(&config, text).unwrap();
    for (value, is_valid) in [
        ("10.0.0.0/8 ::1\t192.0.2.1", true),
        ("10.0.0.0/8, ::1,192.0.2.1", true),
        ("10.0.0.0/8", true),
        (" ", false),
        ("10.0.0.0/8 x", false),
    ] {
        let mut check = hurtle();
        let check = check.args(["check"]).arg(&config).env("NETS", value);
        assert_eq!(check.output().unwrap().status.success(), is_valid, "{value:?}");
    }
}

#[test]
fn a_printed_configuration_has_the_placeholders() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    dir.write("../token", SECRET);
    let text = format!(
        "listen = '127.0.0.1:{{env.UNSET:18190}}'\nroot = {:?}\nbacklog = '{{env.NUMBER}}'\ndrain = '{{env.NUMBER}}'\n\
         [access_log]\npath = '{{env.SECRET}}.log'\n",
        dir.root()
    );
    let sites = format!(
        "backlog = '{{env.NUMBER}}'\n[[site]]\n[[site.header]]\nmatch = '**'\n\
         set = {{ Authorization = 'Bearer {{file.token}}' }}\n[[site.mount]]\nfiles = {:?}\n\
         [[site.mount]]\npath = '/p'\nproxy = 'http://{{env.TEXT}}:3000'\n\
         [[site.mount]]\npath = '/b'\nrespond = 'a brace: {{{{env.TEXT}}'\n",
        dir.root()
    );
    let rows = [
        (
            text,
            [
                "listen = \"127.0.0.1:{env.UNSET:18190}\"",
                "drain = \"{env.NUMBER}\"",
                "{env.SECRET}.log\"",
            ],
        ),
        (sites, ["backlog = \"{env.NUMBER}\"", "Bearer {file.token}", "http://{env.TEXT}:3000"]),
    ];
    for (text, wants) in rows {
        let config = dir.path("../printed.toml");
        fs::write(&config, text).unwrap();
        let (code, printed) = run(&["print-config"], &config);
        assert_eq!(code, Some(0), "{printed}");
        for want in wants {
            assert!(printed.contains(want), "{want}: {printed}");
        }
        assert!(!printed.contains(SECRET), "{printed}");
        fs::write(&config, &printed).unwrap();
        let (code, again) = run(&["print-config"], &config);
        assert_eq!((code, again), (Some(0), printed), "it is read back as it was");
        let mut command = hurtle();
        command.args(["explain", "/p/x", "--config"]).arg(&config);
        let output = command.env("TEXT", "hello").env("SECRET", SECRET).env("NUMBER", "7").output();
        let explained = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(explained.contains("mount"), "{explained}");
        assert!(!explained.contains(SECRET), "{explained}");
    }
}
