//! Caddyfiles whose import is known: sites, ports, certificates and logs.

use std::fs;

use hurtle::import::caddy::{caddy, caddy_file};

use crate::servers::{Dir, Ours, ask, free_port};

/// The configuration of an import, without its comments.
fn imported(text: &str) -> String {
    let imported = caddy(text, false).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
    without_comments(&imported.text)
}

pub(super) fn without_comments(text: &str) -> String {
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    lines.join("\n")
}

#[test]
fn addresses_become_listeners_and_names() {
    let table: [(&str, &str, &[&str]); 13] = [
        (
            "an address that Caddy takes for a name",
            "http://0.0.0.0:8080 {\nrespond a\n}",
            &[
                "listen = [\"0.0.0.0:8080\", \"[::]:8080\"]\n[[site]]\nhosts = \"0.0.0.0\"\n[[site.mount]]",
            ],
        ),
        (
            "a name",
            "a.test.org {\nrespond a\n}",
            &[
                "listen = [\"0.0.0.0:80\", \"[::]:80\"]\nlisten_tls = [\"0.0.0.0:443\", \"[::]:443\"]\n[acme]\naccept_terms = true",
                "hosts = \"a.test.org\"\n[site.tls]\ncertificate = \"auto\"\n[[site.mount]]",
            ],
        ),
        (
            "in clear",
            "http://a.test.org {\nrespond a\n}",
            &[
                "listen = [\"0.0.0.0:80\", \"[::]:80\"]\n[[site]]\nhosts = \"a.test.org\"\n[[site.mount]]",
            ],
        ),
        (
            "both",
            "http://a.test.org, https://a.test.org {\nrespond a\n}",
            &["[site.tls]\ncertificate = \"auto\"\nredirect = false"],
        ),
        (
            "a port",
            ":8080\nrespond a",
            &[
                "listen = [\"0.0.0.0:8080\", \"[::]:8080\"]\n[[site]]\ndefault = true\n[[site.mount]]",
            ],
        ),
        (
            "a name at another port",
            "a.test.org:8443 {\nrespond a\n}",
            &[
                "listen_tls = [\"0.0.0.0:8443\", \"[::]:8443\"]",
                "listen = [\"0.0.0.0:80\", \"[::]:80\"]",
            ],
        ),
        (
            "interfaces",
            ":8080 {\nbind 127.0.0.1 ::1 unix//run/x.sock\nrespond a\n}",
            &["listen = [\"127.0.0.1:8080\", \"[::1]:8080\", \"unix:/run/x.sock\"]"],
        ),
        (
            "interfaces of sites without their own, also of redirects to HTTPS and of metrics",
            "{\ndefault_bind 127.0.0.1\n}\na.test.org {\nrespond a\n}\n:9090 {\nmetrics\n}\n\
             :8080 {\nbind 127.0.0.2\nrespond b\n}",
            &[
                "listen = [\"127.0.0.1:80\", \"127.0.0.2:8080\"]\nlisten_tls = \"127.0.0.1:443\"",
                "[metrics]\nlisten = \"127.0.0.1:9090\"",
            ],
        ),
        (
            "an order that Caddy has anyway",
            "{\norder php_fastcgi after reverse_proxy\norder file_server last\norder tracing first\n\
             order cache before rewrite\n}\n:80 {\nrespond a\n}",
            &["respond = \"a\""],
        ),
        (
            "a redirect to HTTPS",
            "http:// {\nredir https://{host}{uri} permanent\n}\na.test.org {\nrespond a\n}",
            &[
                "[[site]]\nhosts = \"a.test.org\"\n[site.tls]\ncertificate = \"auto\"\n[[site.mount]]\nrespond = \"a\"",
            ],
        ),
        (
            "without redirects",
            "{\nauto_https disable_redirects\n}\na.test.org {\nrespond a\n}",
            &["listen_tls = [\"0.0.0.0:443\", \"[::]:443\"]\n[acme]"],
        ),
        (
            "other content on other ports",
            ":80 {\nrespond a\n}\n:81 {\nrespond b\n}",
            &[
                "[[site]]\nlisten = [\"0.0.0.0:80\", \"[::]:80\"]\ndefault = true\n[[site.mount]]\nrespond = \"a\"\n[[site]]\nlisten = [\"0.0.0.0:81\", \"[::]:81\"]",
            ],
        ),
        (
            "variables",
            "{$Host_1} {\nreverse_proxy {$APP:127.0.0.1}:{$PORT}\n}",
            &["hosts = \"{env.Host_1}\"", "proxy = \"http://{env.APP:127.0.0.1}:{env.PORT}\""],
        ),
    ];
    for (sentence, text, expected) in table {
        let found = imported(text);
        for part in expected {
            assert!(found.contains(part), "{sentence}: no\n{part}\nin\n{found}");
        }
    }
}

#[test]
fn options_certificates_and_logs_are_translated() {
    let table: [(&str, &str, &str); 27] = [
        (
            "options of the only listener, beside a redirect to HTTPS and metrics",
            "{\nservers :443 {\nprotocols h1 h2\n}\nservers :8443 {\ntrusted_proxies static 192.0.2.0/24\n}\n}\n\
             a.test.org {\nrespond a\n}\n:9090 {\nmetrics /metrics\n}",
            "http3 = false\n[acme]",
        ),
        (
            "options of a listener replace those of all",
            "{\nservers {\ntrusted_proxies static 192.0.2.0/24\n}\nservers 127.0.0.1:8080 {\ntimeouts {\nidle 2m\n}\n}\n}\n\
             :8080 {\nbind 127.0.0.1\nrespond a\n}",
            "listen = \"127.0.0.1:8080\"\n[limits]\nidle_timeout = \"2m\"",
        ),
        (
            "TLS to an upstream by its transport",
            ":8080 {\nreverse_proxy nas:8443 {\ntransport http {\ntls_insecure_skip_verify\n}\n}\n}",
            "proxy = \"https://nas:8443\"\nupstream_tls = { insecure_skip_verify = true }",
        ),
        (
            "one name on two ports of HTTPS",
            "a.test.org {\nrespond a\n}\na.test.org:8448 {\nrespond b\n}",
            "[[site]]\nhosts = \"a.test.org\"\nlisten = [\"0.0.0.0:8448\", \"[::]:8448\"]\n[site.tls]\ncertificate = \"auto\"\n[[site.mount]]\nrespond = \"b\"",
        ),
        (
            "metrics alone on a port",
            ":9090 {\nbind 127.0.0.1\nmetrics /metrics\n}\na.test.org {\nrespond a\n}",
            "[metrics]\nlisten = \"127.0.0.1:9090\"",
        ),
        (
            "certificates on demand",
            "{\non_demand_tls {\nask http://127.0.0.1:9000/ok?key=1\ninterval 2m\nburst 5\n}\n}\nhttps:// {\ntls {\non_demand\n}\nrespond a\n}",
            "[[site]]\ndefault = true\n[site.tls]\ncertificate = \"auto\"\non_demand = { ask = \"http://127.0.0.1:9000/ok?key=1\" }",
        ),
        (
            "for a wildcard, beside a private name",
            "{\non_demand_tls {\npermission http http://a.test.org/\n}\n}\n*.b.test.org, nas.internal {\ntls a@b.org {\non_demand\n}\nrespond a\n}",
            "hosts = \"*.b.test.org\"\n[site.tls]\ncertificate = \"auto\"\non_demand = { ask = \"http://a.test.org/\" }\n[[site.mount]]\nrespond = \"a\"\n[[site]]\nhosts = \"nas.internal\"\n[site.tls]\ncertificate = \"local\"\n[[site.mount]]",
        ),
        (
            "the URL in a block",
            "{\non_demand_tls {\npermission http {\nendpoint http://a.test.org/\n}\n}\n}\n:443 {\ntls {\non_demand\n}\nrespond a\n}",
            "on_demand = { ask = \"http://a.test.org/\" }",
        ),
        (
            "a certificate of Caddy's own",
            "nas.lan {\ntls internal\nrespond a\n}",
            "listen_tls = [\"0.0.0.0:443\", \"[::]:443\"]\n[[site]]\nhosts = \"nas.lan\"\n[site.tls]\ncertificate = \"local\"\n[[site.mount]]",
        ),
        (
            "names of this machine and of a private network",
            "localhost, *.localhost, nas, 192.168.1.5 {\nrespond a\n}",
            "hosts = [\"localhost\", \"*.localhost\", \"nas\", \"192.168.1.5\"]\n[site.tls]\ncertificate = \"local\"",
        ),
        (
            "beside a public name",
            "a.test.org, nas.internal {\nrespond a\n}",
            "hosts = \"a.test.org\"\n[site.tls]\ncertificate = \"auto\"\n[[site.mount]]\nrespond = \"a\"\n[[site]]\nhosts = \"nas.internal\"\n[site.tls]\ncertificate = \"local\"",
        ),
        (
            "for all names",
            "{\nlocal_certs\n}\nnas.lan {\nrespond a\n}",
            "hosts = \"nas.lan\"\n[site.tls]\ncertificate = \"local\"",
        ),
        (
            "an address for the authority",
            "{\nemail a@b.org\nacme_ca https://ca.test/directory\n}\na.test.org\nrespond a",
            "[acme]\naccept_terms = true\nemail = \"a@b.org\"\nauthority = [{ directory = \"https://ca.test/directory\" }]",
        ),
        (
            "files of a certificate",
            "a.test.org {\ntls /c.pem /k.pem\nrespond a\n}",
            "[site.tls]\ncertificate = \"/c.pem\"\nkey = \"/k.pem\"",
        ),
        (
            "client certificates",
            "a.test.org {\ntls /c.pem /k.pem {\nclient_auth {\nmode require_and_verify\ntrust_pool file /ca.pem\n}\n}\nrespond a\n}",
            "client_ca = \"/ca.pem\"\nclient_auth = \"required\"",
        ),
        (
            "trusted proxies",
            "{\nservers {\ntrusted_proxies static private_ranges 192.0.2.0/24\ntimeouts {\nread_header 10s\nidle 2m\n}\n}\n}\n:80\nrespond a",
            "\"fd00::/8\", \"::1\", \"192.0.2.0/24\"]\n[limits]\nhead_timeout = \"10s\"\nidle_timeout = \"2m\"",
        ),
        (
            "fields of proxies that are set",
            "{\nservers {\ntrusted_proxies static 192.0.2.0/24\n}\n}\n:80\nreverse_proxy a:1 {\nheader_up X-Forwarded-For {client_ip}\nheader_up X-Forwarded-Proto {scheme}\n}",
            "request_fields = { set = { X-Forwarded-For = \"{client}\", X-Forwarded-Proto = \"{scheme}\" } }",
        ),
        (
            "peers that are no proxies",
            "{\nservers {\ntrusted_proxies static 192.0.2.0/24\n}\n}\n:80 {\n@out not remote_ip 192.0.2.0/24\nabort @out\nrespond a\n}",
            "match = { not = { peer = [\"192.0.2.0/24\"] } }\nabort = true",
        ),
        (
            "a script by FastCGI",
            ":80 {\nroot * /srv\nreverse_proxy /git/* unix//run/cgi.sock {\ntransport fastcgi {\nenv SCRIPT_FILENAME /usr/x.cgi\n\
             env PATH_INFO {path}\nenv GIT_HTTP_EXPORT_ALL 1\n}\n}\nfile_server\n}",
            "match = \"/git/**\"\nfastcgi = \"unix:/run/cgi.sock\"\nparams = { DOCUMENT_ROOT = \"/srv\", \
             SCRIPT_FILENAME = \"/usr/x.cgi\", GIT_HTTP_EXPORT_ALL = \"1\" }",
        ),
        (
            "peers of a variable",
            "{\nservers {\ntrusted_proxies static {$NETS}\n}\n}\n:80 {\n@out not remote_ip {$NETS}\nabort @out\nrespond a\n}",
            "match = { not = { peer = \"{env.NETS}\" } }\nabort = true",
        ),
        (
            "clients that proxies name",
            "{\nservers {\ntrusted_proxies static 192.0.2.0/24\n}\n}\n:80 {\n@in client_ip 10.0.0.0/8\nrespond @in a\n}",
            "match = { client = [\"10.0.0.0/8\"] }\nrespond = \"a\"",
        ),
        (
            "a log",
            ":80 {\nlog {\noutput file /var/log/x.log {\nroll_size 1gb\n}\n}\nrespond a\n}",
            "[access_log]\nformat = \"json\"\npath = \"/var/log/x.log\"",
        ),
        (
            "a log of one site",
            ":80 {\nlog\nrespond a\n}\n:81 {\nrespond b\n}",
            "default = true\naccess_log = false\n[[site.mount]]\nrespond = \"b\"",
        ),
        (
            "PHP",
            ":80 {\nroot * /srv\nencode gzip\nphp_fastcgi unix//run/php.sock {\nenv APP prod\nindex app.php\n}\nfile_server\n}",
            "[[site.mount]]\nfastcgi = \"unix:/run/php.sock\"\nroot = \"/srv\"\nindex = [\"app.php\"]\nfront_for_scripts = true\nparams = { APP = \"prod\" }\ncompress = true",
        ),
        (
            "weights and limits",
            ":80\nreverse_proxy a:1 b:2 {\nlb_policy weighted_round_robin 3 1\nunhealthy_request_count 20\n}",
            "proxy = [{ url = \"http://a:1\", weight = 3, max_connections = 20 }, { url = \"http://b:2\", max_connections = 20 }]\nupstream_queue = 0",
        ),
        (
            "TLS to an upstream",
            ":80\nreverse_proxy https://a {\ntransport http {\ntls_insecure_skip_verify\ntls_server_name b\n}\n}",
            "proxy = \"https://a:443\"\nupstream_tls = { insecure_skip_verify = true, server_name = \"b\" }",
        ),
        (
            "the PROXY protocol",
            ":80\nreverse_proxy a:1 {\ntransport http {\nproxy_protocol v2\n}\n}",
            "proxy = \"http://a:1\"\nsend_proxy_protocol = \"v2\"",
        ),
    ];
    for (sentence, text, expected) in table {
        let found = imported(text);
        assert!(found.contains(expected), "{sentence}: no\n{expected}\nin\n{found}");
    }
}

#[test]
fn files_of_an_import_are_read_beside_the_file() {
    let dir = Dir::new();
    let sites = dir.0.join("sites");
    fs::create_dir(&sites).expect("a directory");
    fs::write(sites.join("b.caddy"), "http://b.test.org {\nimport common\nrespond b\n}\n")
        .expect("a file");
    fs::write(sites.join("a.caddy"), "http://a.test.org {\nimport part 404\n}\n").expect("a file");
    fs::write(dir.0.join("part"), "respond {args[0]}\n").expect("a file");
    let file = dir.0.join("Caddyfile");
    fs::write(&file, "(common) {\nheader X-A a\n}\nimport sites/*.caddy\n").expect("a file");
    // As Caddy 2.6 does it, names are beside the file that has the import.
    let problems = caddy_file(&file, false).expect_err("sites/part is not there").join("\n");
    assert!(
        problems.contains("a.caddy:2: ") && problems.contains("sites/part: No such file"),
        "{problems}"
    );
    fs::rename(dir.0.join("part"), sites.join("part")).expect("a file");
    let imported = caddy_file(&file, false).expect("an import").text;
    let found = without_comments(&imported);
    assert!(
        found.contains("hosts = \"a.test.org\"\n[[site.mount]]\nrespond = \"\"\nstatus = 404"),
        "{found}"
    );
    assert!(
        found.contains("hosts = \"b.test.org\"\n[[site.header]]\nset = { X-A = \"a\" }"),
        "{found}"
    );
}

#[test]
fn files_of_the_configuration_are_hidden() {
    let dir = Dir::new();
    let www = dir.0.join("www");
    let port = free_port();
    let file = www.join("docs/Caddyfile");
    // Patterns that hold no file of the configuration hide none.
    fs::write(&file, ":80 {\n@static path *.css *.js\nfile_server @static\nrespond a\n}\n")
        .expect("a file");
    let of_styles = caddy_file(&file, false).expect("an import").text;
    assert!(!of_styles.contains("Caddyfile\""), "{of_styles}");
    // Files for two sets of requests, each with the Caddyfile.
    fs::write(
        &file,
        ":80 {\n@a path /a/* /Caddyfile\n@b path /b/* /Caddyfile\nfile_server @a\nfile_server @b\n}\n",
    )
    .expect("a file");
    let of_two = caddy_file(&file, false).expect("an import").text;
    assert_eq!(of_two.matches("match = \"/Caddyfile\"").count(), 1, "{of_two}");
    let site = ":{port} {\nbind 127.0.0.1\nhandle_path /d/* {\nimport ../part\n}\nhandle {\nroot ../docs/..\nfile_server\n}\n}\n";
    fs::write(&file, site.replace("{port}", &port.to_string())).expect("a file");
    fs::write(
        www.join("part"),
        "root * {$ROOT}\nfile_server\n".replace("{$ROOT}", &www.display().to_string()),
    )
    .expect("a file");
    let imported = caddy_file(&file, false).expect("an import").text;
    let ours = Ours::start_in(&imported, port, &www.join("docs"));
    for (path, status) in [
        ("/docs/Caddyfile", "404"),
        ("/docs/%43addyfile", "404"),
        ("/part", "404"),
        ("/d/docs/Caddyfile", "404"),
        ("/d/part", "404"),
        ("/d/docs/guide.txt", "200"),
        ("/docs/guide.txt", "200"),
        ("/a.txt", "200"),
    ] {
        assert_eq!(ask(ours.port, &format!("GET {path}")).status, status, "{path}\n{imported}");
    }
}

#[test]
fn files_of_the_configuration_are_hidden_by_name_where_the_root_is_a_variable() {
    let dir = Dir::new();
    let www = dir.0.join("www");
    let port = free_port();
    let root = format!("root * {{$HURTLE_NO_SUCH_VARIABLE:{}}}\n", www.display());
    let site = format!(
        ":{port} {{\nbind 127.0.0.1\n{root}handle_path /d/* {{\nimport ../part\n}}\n\
         @docs path /docs/*\nfile_server @docs\nfile_server\n}}\n"
    );
    let file = www.join("docs/Caddyfile");
    fs::write(&file, site).expect("a file");
    fs::write(www.join("part"), format!("{root}file_server\n")).expect("a file");
    let imported = caddy_file(&file, false).expect("an import").text;
    let ours = Ours::start_in(&imported, port, &www.join("docs"));
    for (path, status) in [
        ("/docs/Caddyfile", "404"),
        ("/docs/%43addyfile", "404"),
        ("/part", "404"),
        ("/d/docs/Caddyfile", "404"),
        ("/d/part", "404"),
        ("/d/docs/guide.txt", "200"),
        ("/docs/guide.txt", "200"),
        ("/a.txt", "200"),
    ] {
        assert_eq!(ask(ours.port, &format!("GET {path}")).status, status, "{path}\n{imported}");
    }
}

#[test]
fn variables_and_names_that_another_server_knows_have_a_comment() {
    let table = [
        (
            ":80 {\nroot * {$WWW:/srv}\nfile_server\n}",
            "Caddyfile:3: the root has a variable: files with the names",
        ),
        (":80 {\nrespond {$CLOSED} 403\n}", "Caddyfile:2: the variable is a text, also for GET /"),
        (
            ":80 {\nreverse_proxy a:1 {\ntransport http {\nresolvers 1.1.1.1\nnetwork_proxy none\n}\n}\n}",
            "Caddyfile:4: the system's DNS knows the upstreams",
        ),
    ];
    for (text, comment) in table {
        let imported = caddy(text, false).expect("it is translated").text;
        assert!(imported.contains(comment), "no {comment} in\n{imported}");
    }
}

#[test]
fn an_import_by_a_variable_is_refused() {
    let dir = Dir::new();
    let file = dir.0.join("Caddyfile");
    fs::write(&file, ":80 {\nimport {$DIR:conf}/*.conf\nroot * /srv\nfile_server\n}\n")
        .expect("a file");
    let problems = caddy_file(&file, false).expect_err("a guard may be there").join("\n");
    let problem = "Caddyfile:2: the name of an import has no variable: write its value";
    assert!(problems.contains(problem), "{problems}");
}

#[test]
fn each_set_of_users_has_a_file_of_its_own() {
    let hash = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
    let text = format!(
        "(users) {{\nbasic_auth {{\n{{args[0]}} {hash}\n}}\n}}\n\
         :80 {{\nimport users anna\nrespond a\n}}\n:81 {{\nimport users bert\nrespond b\n}}\n"
    );
    let found = imported(&text);
    let files: Vec<&str> = found.lines().filter(|line| line.starts_with("users = ")).collect();
    assert!(matches!(files.as_slice(), [one, other] if one != other), "{found}");
}
