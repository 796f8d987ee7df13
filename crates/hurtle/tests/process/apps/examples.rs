//! The example applications.

use std::fs;
use std::path::Path;

use super::{Apps, get_until};

#[test]
fn the_examples_work_when_copied_into_the_directory() {
    let apps = Apps::new(&[("a.txt", "a\n")]);
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/apps");
    for name in ["python", "node"] {
        let files: Vec<(String, String)> = fs::read_dir(examples.join(name))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read_to_string(path).unwrap())
            })
            .collect();
        let files: Vec<_> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
        apps.deploy(name, &files);
    }
    let child = apps.serve();
    for name in ["python", "node"] {
        get_until(&child, &format!("/{name}/"), 200);
        let mut client = child.connect();
        client.send(format!(
            "PUT /{name}/a/b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
        ));
        let answer = client.response();
        let text = answer.text().replace(' ', "");
        assert_eq!(answer.field("Content-Type"), Some("application/json"), "{name}");
        let wanted = [r#""method":"PUT""#, r#""path":"/a/b""#, r#""body":"hello""#];
        let wanted = wanted.iter().chain(&[r#""client":"127.0.0.1""#]);
        for wanted in wanted {
            assert!(text.contains(wanted), "{name}: {text}");
        }
    }
    assert!(child.stderr().contains("app node: ready for /node"), "{}", child.stderr());
    assert_eq!(child.get("/a.txt").text(), "a\n");
}

#[test]
fn common_application_servers_accept_the_passed_socket() {
    const WSGI: &str = "def application(environ, start_response):\n    \
                        start_response('200 OK', [])\n    \
                        return [environ['PATH_INFO'].encode()]\n";
    const ASGI: &str = "async def application(scope, receive, send):\n    \
                        assert scope['type'] == 'http'\n    \
                        await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n    \
                        body = scope['path'].encode()\n    \
                        await send({'type': 'http.response.body', 'body': body})\n";
    let servers = [
        ("gunicorn", "[\"gunicorn\", \"--bind\", \"fd://0\", \"app:application\"]", WSGI),
        ("uvicorn", "[\"uvicorn\", \"--fd\", \"0\", \"app:application\"]", ASGI),
    ];
    let apps = Apps::new(&[]);
    let installed = |name: &str| Path::new("/usr/bin").join(name).exists();
    let servers = servers.into_iter().filter(|(name, ..)| installed(name));
    let servers: Vec<_> = servers.collect();
    for (name, command, program) in &servers {
        let manifest = format!("path = \"/{name}\"\ncommand = {command}\n");
        apps.deploy(name, &[("app.toml", &manifest), ("app.py", program)]);
    }
    let child = apps.serve();
    for (name, ..) in servers {
        let target = format!("/{name}/x");
        assert_eq!(get_until(&child, &target, 200).text(), target);
    }
}
