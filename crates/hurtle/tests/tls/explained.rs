//! `hurtle explain` for files over TLS: whether the kernel encrypts them, and how they are sent.

use crate::child::{hurtle, write_config};
use crate::server::Authority;
use crate::support::Dir;

/// The request after the redirect to HTTPS was described as one in clear.
#[test]
fn explain_describes_the_request_over_tls() {
    let dir = Dir::new(&[("a", "a")]);
    let files = Authority::new("ours").issue("localhost").write(&dir, "localhost");
    let (chain, key) = (files.chain.display(), files.key.display());
    // Redirects of rules named the scheme http where paths alone choose the route.
    for place in ["mount]]\nredirect = ", "rule]]\nmatch = '/**'\nredirect = "] {
        let text = format!(
            "listen_tls = '127.0.0.1:0'\n[[site]]\nhosts = 'localhost'\n\
             tls = {{ certificate = '{chain}', key = '{key}' }}\n[[site.{place}\
             '{{scheme}}://other.example/x'\n"
        );
        let config = write_config(&dir, &text);
        for target in ["/x", "http://localhost/x", "https://localhost/x"] {
            let mut command = hurtle();
            command.args(["explain", target, "--host", "localhost", "--config"]).arg(&config);
            let output = command.output().unwrap();
            let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert!(said.contains("https://other.example/x"), "{place}, {target}: {said}");
        }
    }
}

#[test]
fn explain_says_whether_the_kernel_encrypts() {
    let large = "x".repeat(300 << 10);
    let dir = Dir::new(&[("large", &large), ("small", "x")]);
    let files = Authority::new("ours").issue("localhost").write(&dir, "localhost");
    let (chain, key) = (files.chain.display(), files.key.display());
    let kernel = hurtle::sys::offers_tls();
    let table = [
        ("auto", "/large", kernel, "large enough to be worth it"),
        ("auto", "/small", false, "too small"),
        ("off", "/large", false, "not wanted"),
    ];
    for (sendfile, path, by_sendfile, why) in table {
        let text = format!(
            "listen_tls = '127.0.0.1:0'\nsendfile = '{sendfile}'\n[[site]]\nhosts = 'localhost'\n\
             tls = {{ certificate = '{chain}', key = '{key}' }}\n[[site.mount]]\nfiles = '{{root}}'\n"
        );
        let config = write_config(&dir, &text);
        let mut command = hurtle();
        command.args(["explain", path, "--host", "localhost", "--config"]).arg(&config);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let can = kernel && sendfile == "auto";
        assert_eq!(said.contains("the kernel encrypts"), can, "{said}");
        assert_eq!(said.contains("encrypted by the server, so files are copied"), !can, "{said}");
        let sent = said.lines().find(|line| line.starts_with("sent")).unwrap();
        assert_eq!(sent.contains("by sendfile"), by_sendfile, "{why}: {said}");
    }
}

/// Regression: that of a rule was left out.
#[test]
fn explain_shows_the_strict_transport_security_of_a_rule() {
    let dir = Dir::new(&[("a.txt", "a")]);
    let files = Authority::new("ours").issue("localhost").write(&dir, "localhost");
    let (chain, key) = (files.chain.display(), files.key.display());
    let text = format!(
        "listen_tls = '127.0.0.1:0'\n[[site]]\nhosts = 'localhost'\n\
         tls = {{ certificate = '{chain}', key = '{key}', redirect = false }}\n\
         [[site.header]]\nset = {{ Strict-Transport-Security = 'max-age=60' }}\n\
         [[site.mount]]\nfiles = '{{root}}'\nlisting = true\n"
    );
    let config = write_config(&dir, &text);
    for (target, expected) in [
        ("https://localhost/a.txt", true),
        ("https://localhost/", true),
        ("http://localhost/a.txt", false),
        ("http://localhost/", false),
    ] {
        let output = hurtle().args(["explain", target, "--config"]).arg(&config).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let said = said.to_lowercase();
        assert!(said.contains("http/1.1 200 ok"), "{target}: {said}");
        let has = said.contains("\nstrict-transport-security: max-age=60\r\n");
        assert_eq!(has, expected, "{target}: {said}");
    }
}
