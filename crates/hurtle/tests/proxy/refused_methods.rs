//! Pages for methods that no handler takes.

use crate::support::Proxy;

/// Regression: they were accepted and never used.
#[test]
fn refused_methods_have_pages() {
    let proxy = Proxy::written(
        1,
        "[[site]]\nerrors = { 405 = \"@no\", 501 = \"@no\" }\n[[site.mount]]\nfiles = \"/nowhere\"\n\
             [[site.mount]]\npath = \"/fixed\"\nrespond = \"\"\n\
             [[site.mount]]\nname = \"no\"\nrespond = \"not so\"\nstatus = 405\n",
    );
    for request in ["DELETE /", "FROB /", "TRACE /fixed"] {
        let mut client = proxy.send(format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (head, body) = client.answer();
        assert!(head.starts_with("HTTP/1.1 405 ") && body == "not so", "{request}: {head}{body}");
    }
}
