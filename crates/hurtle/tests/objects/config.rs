//! Problems of configurations with object stores.

use hurtle::config::check;

#[test]
fn problems_have_a_key_and_a_hint() {
    let rows: [(&str, &str, &str); 7] = [
        ("a cache is required", "files = \"s3://b\"", "files: objects need a cache"),
        ("in a directory", "files = \"s3://b\"\nobject_store = {}", "cache_dir is missing"),
        (
            "the scheme",
            "files = \"ftp://b\"\nobject_store = { cache_dir = \"c\" }",
            "not s3, gs or az",
        ),
        (
            "clear text",
            "files = \"s3://b\"\nobject_store = { cache_dir = \"c\", endpoint = \"http://m:1\" }",
            "endpoint: objects would travel in clear",
        ),
        (
            "credentials",
            "files = \"s3://b\"\nobject_store = { cache_dir = \"c\", endpoint = \"https://a:b@m\" }",
            "give them in the environment",
        ),
        (
            "archives",
            "files = \"s3://b\"\nlisting = true\narchive = {}\nobject_store = { cache_dir = \"c\" }",
            "archive: archives are made of directories only",
        ),
        (
            "a directory",
            "files = \"d\"\nobject_store = { cache_dir = \"c\" }",
            "object_store: goes with",
        ),
    ];
    for (sentence, mount, expected) in rows {
        let text = format!("[[site]]\n[[site.mount]]\n{mount}\n");
        let problems = check(&text, "/etc/hurtle.toml".as_ref()).unwrap_err();
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(shown.iter().any(|line| line.contains(expected)), "{sentence}: {shown:?}");
    }
}

#[test]
fn a_printed_configuration_is_read_back() {
    let text = "[[site]]\n[[site.mount]]\nfiles = \"s3://bucket/a\"\nauth = \"none\"\nuploads = {}\n\
                [site.mount.object_store]\ncache_dir = \"/var/cache/hurtle\"\nregion = \"eu-west-1\"\n";
    let config = check(text, "/etc/hurtle.toml".as_ref()).unwrap();
    let printed = hurtle::config::print(&config);
    assert_eq!(check(&printed, "/etc/hurtle.toml".as_ref()).unwrap(), config, "{printed}");
}
