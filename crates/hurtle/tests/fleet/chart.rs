//! The Helm chart and the other manifests of `examples`: they render, the API's own types accept
//! them, and what they say about the server is true.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hurtle::metrics::exposition::FAMILIES;

use crate::balancer::tools;

/// The version of Kubernetes that the chart is rendered for.
const KUBERNETES: &str = "1.30.0";

/// Sets of values, the kinds beyond the usual ones that each adds, and a text in the manifests.
const VARIANTS: &[(&str, &str, &[&str], &str)] = &[
    ("the defaults", "", &[], "maxUnavailable: 0"),
    ("a directory for bodies of slow clients", "", &[], "mountPath: /var/tmp"),
    ("a Service without UDP", "tls.enabled=true,tls.secret=mine", &[], "http3 = false"),
    (
        "a certificate of cert-manager",
        "tls.enabled=true,tls.certManager.enabled=true,tls.certManager.issuer.name=ca,\
         tls.hosts={example.org}",
        &["Certificate"],
        "secretName: web-hurtle-tls",
    ),
    (
        "hurtle's own ACME client",
        "tls.enabled=true,acme.enabled=true,acme.acceptTerms=true,tls.hosts={example.org}",
        &["PersistentVolumeClaim"],
        "ReadWriteMany",
    ),
    (
        "autoscaling and monitoring",
        "autoscaling.enabled=true,serviceMonitor.enabled=true",
        &["HorizontalPodAutoscaler", "ServiceMonitor"],
        "hurtle_http_requests_per_second",
    ),
    ("a certificate of a secret", "tls.enabled=true,tls.secret=mine", &[], "secretName: mine"),
    ("content of an image", "content.image=site:1", &[], "initContainers"),
    ("times", "drainDelay=7,drain=20", &[], "terminationGracePeriodSeconds: 32"),
];

/// Values that the chart refuses, with its message.
const REFUSED: &[(&str, &str)] = &[
    ("tls.enabled=true", "tls.enabled needs"),
    ("tls.secret=a", "need tls.enabled"),
    (
        "tls.certManager.enabled=true,tls.certManager.issuer.name=le,tls.hosts={a.example}",
        "need tls.enabled",
    ),
    ("tls.enabled=true,tls.secret=a,acme.enabled=true", "not both"),
    ("tls.enabled=true,tls.certManager.enabled=true", "needs tls.hosts"),
    ("tls.enabled=true,acme.enabled=true", "acme.acceptTerms"),
];

#[test]
fn the_chart_renders_valid_manifests() {
    let Some(helm) = tool("helm") else { return };
    let chart = examples().join("helm/hurtle");
    let lint = run(Command::new(&helm).args(["lint", "--strict"]).arg(&chart), "");
    assert!(lint.is_ok(), "{lint:?}");
    for (sentence, values, kinds, text) in VARIANTS {
        let manifests = render(&helm, &chart, values).unwrap();
        assert!(manifests.contains(text), "{sentence}: {manifests}");
        let config = config_of(&manifests);
        let checked = hurtle::config::check(&config, Path::new("hurtle.toml"));
        assert!(checked.is_ok(), "{sentence}: {checked:?}\n{config}");
        let Some(checked) = check(&manifests) else { continue };
        let checked = checked.unwrap_or_else(|problems| panic!("{sentence}: {problems}"));
        let usual = ["ConfigMap", "Deployment", "PodDisruptionBudget", "Service"];
        for kind in usual.iter().chain(*kinds) {
            let kind = format!("{kind} ");
            assert!(checked.lines().any(|line| line.starts_with(&kind)), "{sentence}: no {kind}");
        }
    }
    for (values, message) in REFUSED {
        let refusal = render(&helm, &chart, values).unwrap_err();
        assert!(refusal.contains(message), "{values}: {refusal}");
    }
}

#[test]
fn the_check_refuses_invalid_manifests() {
    let Some(helm) = tool("helm") else { return };
    let manifests = render(&helm, &examples().join("helm/hurtle"), "").unwrap();
    let rows = [
        ("an unknown field", "readinessProbe:", "readynessProbe:", "unknown field"),
        ("a wrong type", "replicas: 3", "replicas: three", "cannot unmarshal"),
        ("a port that no container has", "targetPort: http", "targetPort: web", "no port web"),
        ("a probe of no port", "path: /ready, port: metrics", "path: /ready, port: m", "a probe"),
        ("an unknown kind", "kind: Deployment", "kind: Deploy", "unknown"),
    ];
    for (sentence, from, to, expected) in rows {
        assert!(manifests.contains(from), "{sentence}");
        let Some(checked) = check(&manifests.replacen(from, to, 1)) else { return };
        let problems = checked.expect_err(sentence);
        assert!(problems.contains(expected), "{sentence}: {problems}");
    }
}

#[test]
fn the_job_of_generators_is_a_valid_manifest() {
    let job = std::fs::read_to_string(examples().join("load-job.yaml")).unwrap();
    if let Some(checked) = check(&job) {
        assert_eq!(checked.unwrap(), "Job deathmatch-load\n");
    }
}

#[test]
fn the_autoscaler_uses_a_metric_that_exists() {
    let values = std::fs::read_to_string(examples().join("helm/hurtle/values.yaml")).unwrap();
    let guide = std::fs::read_to_string(examples().join("../docs/fleet.md")).unwrap();
    let rate = values.lines().find_map(|line| line.trim().strip_prefix("metric: ")).unwrap();
    let counter = rate.strip_suffix("_per_second").unwrap().to_owned() + "_total";
    let mut families = FAMILIES.iter().flat_map(|group| group.iter());
    assert!(families.any(|family| family.sample_name() == counter), "no counter {counter}");
    // The rule of the adapter, from which the rate comes.
    assert!(guide.contains(&counter) && guide.contains(rate), "docs/fleet.md: {counter}, {rate}");
}

/// The manifests of the chart with these values, or Helm's refusal.
fn render(helm: &Path, chart: &Path, values: &str) -> Result<String, String> {
    let mut command = Command::new(helm);
    command.args(["template", "web", "--kube-version", KUBERNETES]).arg(chart);
    if !values.is_empty() {
        command.args(["--set", values]);
    }
    run(&mut command, "")
}

/// `hurtle.toml` of the manifests.
fn config_of(manifests: &str) -> String {
    let (_, rest) = manifests.split_once("  hurtle.toml: |\n").expect("there is a configuration");
    let lines = rest.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| line.trim_start_matches("    ").to_owned() + "\n").collect()
}

/// The objects of valid manifests, or their problems; `None` without the program that checks.
fn check(manifests: &str) -> Option<Result<String, String>> {
    let mut command = Command::new(tool("manifest-check")?);
    Some(run(&mut command, manifests))
}

/// Runs a command with this input; returns its standard output, or its standard error.
fn run(command: &mut Command, input: &str) -> Result<String, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    // A program that does not read its input has failed, and says why.
    let _ = std::io::Write::write_all(&mut process.stdin.take().unwrap(), input.as_bytes());
    let output = process.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

/// A program of `target/tools/bin`; `None` if it is not there, which is said.
fn tool(name: &str) -> Option<PathBuf> {
    let found = Some(tools().join("bin").join(name)).filter(|path| path.is_file());
    if found.is_none() {
        eprintln!("not run: no {name}; cargo xtask test --only packages installs it");
    }
    found
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}
