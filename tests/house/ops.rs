//! `ops/`: alerts that fire when they should, a dashboard that asks for series which exist, services that
//! find each other, and manifests that fit the programs in their images.
//!
//! There is no container engine here: whether the images start is not tested.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use lock_test_support::promtool::promtool;
use yaml_rust2::{Yaml, YamlLoader};

/// What defines the metrics.
const METRICS: &str = include_str!("../../lock-runtime/src/metrics/enabled.rs");
const BUCKETS: &str = include_str!("../../examples/orders/metrics.rs");
const GUIDE: &str = include_str!("../../lock-runtime/src/guide/observability.md");
const RUNBOOK: &str = include_str!("../../lock-runtime/src/guide/runbook.md");
const RUNBOOK_URL: &str =
    "https://docs.rs/lock-runtime/latest/lock_runtime/guide/runbook/index.html";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn ops(file: &str) -> PathBuf {
    root().join("ops").join(file)
}

fn read(file: &str) -> String {
    let path = ops(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads YAML, of which JSON is a part.
fn parsed(file: &str) -> Yaml {
    let mut documents = YamlLoader::load_from_str(&read(file)).unwrap();
    assert_eq!(documents.len(), 1, "`{file}`");
    documents.remove(0)
}

fn text(yaml: &Yaml) -> &str {
    yaml.as_str().unwrap_or_else(|| panic!("no text: {yaml:?}"))
}

fn list(yaml: &Yaml) -> &[Yaml] {
    yaml.as_vec().map_or(&[], Vec::as_slice)
}

fn entries(yaml: &Yaml) -> impl Iterator<Item = (&str, &Yaml)> {
    let map = yaml.as_hash().unwrap_or_else(|| panic!("no map: {yaml:?}"));
    map.iter().map(|(key, value)| (text(key), value))
}

/// Returns the rules of all alerts.
fn alerts() -> Vec<Yaml> {
    let rules = parsed("alerts.yml");
    let groups = list(&rules["groups"]).iter();
    groups
        .flat_map(|group| list(&group["rules"]))
        .cloned()
        .collect()
}

/// Returns each expression of the dashboard, with values for its variables, and where it is.
fn dashboard_expressions() -> Vec<(String, String)> {
    fn collect(yaml: &Yaml, title: &str, found: &mut Vec<(String, String)>) {
        let title = yaml["title"].as_str().unwrap_or(title);
        if let Some(expression) = yaml["expr"].as_str() {
            let expression = expression.replace("$__rate_interval", "5m");
            let expression = expression
                .replace("$job", "orders")
                .replace("$template", ".*");
            found.push((title.to_owned(), expression));
        }
        let children = list(yaml).iter();
        let of_map = yaml.as_hash().into_iter().flat_map(|map| map.values());
        children
            .chain(of_map)
            .for_each(|child| collect(child, title, found));
    }
    let mut found = Vec::new();
    collect(&parsed("grafana/dashboards/locks.json"), "", &mut found);
    found
}

/// Returns the series that Prometheus has of the metrics which the library describes.
fn series() -> BTreeSet<String> {
    let described = METRICS.split("describe_").skip(1).filter_map(|rest| {
        let (kind, rest) = rest.split_once("!(")?;
        let (name, rest) = rest.split_once('"')?.1.split_once('"')?;
        let unit = rest.split(',').nth(1)?.trim();
        Some((kind, name.replace('.', "_"), unit))
    });
    let described = described.flat_map(|(kind, name, unit)| match (kind, unit) {
        ("histogram", "seconds") => of_histogram(&format!("{name}_seconds")),
        ("histogram", "Unit::Percent") => of_histogram(&format!("{name}_ratio")),
        ("counter", _) => vec![format!("{name}_total")],
        ("gauge", "seconds") => vec![format!("{name}_seconds")],
        ("gauge", _) => vec![name],
        other => panic!("`{name}`: {other:?}"),
    });
    described.collect()
}

fn of_histogram(name: &str) -> Vec<String> {
    ["bucket", "count", "sum"]
        .map(|part| format!("{name}_{part}"))
        .into()
}

/// Returns the names of the metrics in an expression.
fn metrics_in(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with("distributed_lock"))
}

/// Returns the anchors of the headings, as rustdoc and GitHub make them.
fn sections(markdown: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let headings = markdown.lines().filter(move |line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    let anchor = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn each_alert_fires_when_it_should_and_only_then() {
    promtool(
        &["check", "config", ops("prometheus.yml").to_str().unwrap()],
        "",
    );
    let tests = ops("alerts_test.yml");
    let printed = promtool(&["test", "rules", tests.to_str().unwrap()], "");
    assert!(printed.contains("SUCCESS"), "{printed}");

    let tests = parsed("alerts_test.yml");
    let cases = list(&tests["tests"]).iter();
    let cases = cases.flat_map(|test| list(&test["alert_rule_test"]));
    let mut fires = BTreeSet::new();
    let mut is_silent = BTreeSet::new();
    for case in cases {
        let tested = match list(&case["exp_alerts"]) {
            [] => &mut is_silent,
            _ => &mut fires,
        };
        tested.insert(text(&case["alertname"]));
    }
    let alerts = alerts();
    let names: BTreeSet<_> = alerts.iter().map(|alert| text(&alert["alert"])).collect();
    assert_eq!(names.len(), alerts.len());
    assert_eq!(fires, names);
    assert_eq!(is_silent, names);
}

#[test]
fn alerts_of_the_guide_are_those_of_ops() {
    let (_, rest) = GUIDE.split_once("```yaml\n").unwrap();
    let (rules, _) = rest.split_once("```").unwrap();
    let rules = YamlLoader::load_from_str(rules).unwrap().remove(0);
    let rules = list(&rules["groups"][0]["rules"]);
    assert_eq!(rules.len(), 3);
    let alerts = alerts();
    for rule in rules {
        let named = |alert: &&Yaml| alert["alert"] == rule["alert"];
        let alert = alerts.iter().find(named).unwrap();
        let expression =
            |rule: &Yaml| -> String { text(&rule["expr"]).split_whitespace().collect() };
        assert_eq!(expression(rule), expression(alert));
        assert_eq!(rule["for"], alert["for"]);
    }
}

#[test]
fn all_alert_on_the_same_losses() {
    let losses = r#"increase(distributed_lock_losses_total{cause!~"shut_down|revoked"}[10m])"#;
    let files = [
        "README.md",
        "ops/alerts.yml",
        "lock-runtime/src/lib.rs",
        "lock-runtime/src/guide/observability.md",
    ];
    for file in files {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let others = text.replace(losses, "");
        assert_ne!(others, text, "`{file}` has no `{losses}`");
        assert!(
            !others.contains("increase(distributed_lock_losses"),
            "{file}"
        );
    }
}

#[test]
fn each_alert_has_a_section_of_the_runbook() {
    let (mut linked, sections) = (BTreeMap::new(), sections(RUNBOOK));
    for alert in alerts() {
        let name = text(&alert["alert"]).to_owned();
        assert!(["critical", "warning"].contains(&text(&alert["labels"]["severity"])));
        let notes = &alert["annotations"];
        assert!(!text(&notes["summary"]).is_empty() && !text(&notes["description"]).is_empty());
        let (url, section) = text(&notes["runbook_url"]).split_once('#').unwrap();
        assert_eq!(url, RUNBOOK_URL);
        assert!(
            sections.contains(section),
            "`{name}`: no section `{section}`"
        );
        // Who reads the runbook finds it, too.
        let row = RUNBOOK
            .lines()
            .find(|line| line.contains(&format!("`{name}`")));
        let row = row.unwrap_or_else(|| panic!("the runbook does not name `{name}`"));
        assert!(row.contains(&format!("(#{section})")), "{row}");
        let other = linked.insert(section.to_owned(), name);
        assert_eq!(other, None, "`{section}` is the section of two alerts");
    }
}

#[test]
fn every_expression_asks_for_series_that_exist() {
    let known = series();
    assert!(
        known.contains("distributed_lock_renewal_margin_ratio_bucket"),
        "{known:?}"
    );
    let alerts = alerts();
    let of_alerts = alerts.iter().map(|alert| {
        let name = text(&alert["alert"]).to_owned();
        (name, text(&alert["expr"]).to_owned())
    });
    let of_dashboard = dashboard_expressions();
    assert!(of_dashboard.len() > 15, "{of_dashboard:?}");
    let mut asked = BTreeSet::new();
    for (place, expression) in of_alerts.chain(of_dashboard) {
        for name in metrics_in(&expression) {
            assert!(known.contains(name), "`{place}`: there is no `{name}`");
            asked.insert(name.to_owned());
        }
        // The exporter has a bucket that ends there.
        for bucket in expression.split("le=\"").skip(1) {
            let end = bucket.split('"').next().unwrap();
            let mut numbers = BUCKETS.split(|c: char| c != '.' && !c.is_ascii_digit());
            assert!(numbers.any(|it| it == end), "`{place}`: no bucket `{end}`");
        }
    }
    // Each metric is on the dashboard, or raises an alert.
    let metric = |name: &String| {
        let parts = ["_bucket", "_count", "_sum"].iter();
        let short = parts.fold(&**name, |name, part| {
            name.strip_suffix(part).unwrap_or(name)
        });
        short.to_owned()
    };
    let metrics = |names: &BTreeSet<String>| names.iter().map(metric).collect::<BTreeSet<_>>();
    assert_eq!(metrics(&asked), metrics(&known));
}

#[test]
fn every_expression_of_the_dashboard_is_parsed() {
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    let expressions = dashboard_expressions();
    for (number, (place, expression)) in expressions.iter().enumerate() {
        assert!(!expression.contains('$'), "`{place}`: {expression}");
        let quoted = expression.replace('\'', "''");
        rules += &format!("  - record: panel:{number}\n    expr: '{quoted}'\n");
    }
    let printed = promtool(&["check", "rules", "/dev/stdin"], &rules);
    let found = format!("{} rules found", expressions.len());
    assert!(printed.contains(&found), "{printed}");
}

/// Returns the ports at which a service listens, and those at which the machine does for it.
fn ports(service: &Yaml) -> (BTreeSet<u16>, BTreeSet<u16>) {
    let (mut inside, mut outside) = (BTreeSet::new(), BTreeSet::new());
    for port in list(&service["expose"]) {
        inside.insert(text(port).parse().unwrap());
    }
    for mapping in list(&service["ports"]) {
        let mapping = text(mapping).strip_prefix("127.0.0.1:");
        let (range, port) = mapping
            .expect("nobody else needs it")
            .split_once(':')
            .unwrap();
        inside.insert(port.parse().unwrap());
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        outside.extend(first.parse::<u16>().unwrap()..=last.parse().unwrap());
    }
    (inside, outside)
}

/// Returns the hosts and ports of the URLs in a text.
fn addresses(text: &str) -> impl Iterator<Item = (&str, u16)> {
    text.split("://").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || ".:-".contains(c)));
        let (host, port) = rest[..end.unwrap_or(rest.len())].split_once(':')?;
        Some((host, port.parse().unwrap()))
    })
}

#[test]
fn services_find_files_and_each_other() {
    let compose = parsed("compose.yaml");
    let services: BTreeMap<_, _> = entries(&compose["services"]).collect();
    let volumes: BTreeSet<_> = entries(&compose["volumes"]).map(|(name, _)| name).collect();
    let mut mounts = BTreeMap::new();
    for (name, service) in &services {
        for mount in list(&service["volumes"]) {
            let mut parts = text(mount).split(':');
            let (from, to) = (parts.next().unwrap(), parts.next().unwrap());
            match from.strip_prefix("./") {
                Some(file) => assert!(ops(file).exists(), "`{name}`: no `{file}`"),
                None => assert!(volumes.contains(from), "`{name}`: no volume `{from}`"),
            }
            mounts.insert((*name, to), from);
        }
        for needed in list(&service["depends_on"]) {
            assert!(services.contains_key(text(needed)), "`{name}`: {needed:?}");
        }
        assert!(service["image"].is_badvalue() != service["build"].is_badvalue());
    }

    let datasource = "grafana/provisioning/datasources/prometheus.yml";
    let texts = ["compose.yaml", "load.sh", datasource].map(read);
    let mut found = 0;
    for (host, port) in texts.iter().flat_map(|text| addresses(text)) {
        let is_there = match services.get(host) {
            Some(service) => ports(service).0.contains(&port),
            None => host == "localhost" && services.values().any(|it| ports(it).1.contains(&port)),
        };
        assert!(is_there, "nobody listens at `{host}:{port}`");
        found += 1;
    }
    assert!(found >= 7, "{found} addresses");

    // Prometheus.
    let prometheus = parsed("prometheus.yml");
    let rules = format!("/etc/prometheus/{}", text(&prometheus["rule_files"][0]));
    assert_eq!(mounts[&("prometheus", &*rules)], "./alerts.yml");
    assert_eq!(
        mounts[&("prometheus", "/etc/prometheus/prometheus.yml")],
        "./prometheus.yml"
    );
    let discovery = &prometheus["scrape_configs"][0]["dns_sd_configs"][0];
    let scraped = services[text(&discovery["names"][0])];
    let port = u16::try_from(discovery["port"].as_i64().unwrap()).unwrap();
    assert!(ports(scraped).0.contains(&port));
    let replicas = scraped["deploy"]["replicas"].as_i64().unwrap();
    assert_eq!(
        ports(scraped).1.len() as i64,
        replicas,
        "a port for each replica"
    );

    // Grafana.
    let provider = parsed("grafana/provisioning/dashboards/locks.yml");
    let folder = text(&provider["providers"][0]["options"]["path"]);
    assert_eq!(mounts[&("grafana", folder)], "./grafana/dashboards");
    assert_eq!(
        mounts[&("grafana", "/etc/grafana/provisioning")],
        "./grafana/provisioning"
    );
    let uid = text(&parsed("grafana/dashboards/locks.json")["uid"]).to_owned();
    assert!(texts[0].contains(&format!("/d/{uid} ")));
    assert_eq!(
        text(&parsed(datasource)["datasources"][0]["type"]),
        "prometheus"
    );
}

/// Returns the lines of the Dockerfile that make an image, from what is copied into it.
fn image(name: &str) -> String {
    let file = read("Dockerfile");
    let (_, rest) = file.split_once(&format!(" AS {name}\n")).unwrap();
    rest.split("\nFROM ").next().unwrap().to_owned()
}

/// The image is made of what is there.
#[test]
fn image_runs_an_example_with_options_that_it_knows() {
    let compose = parsed("compose.yaml");
    let build = &compose["services"]["orders"]["build"];
    let context = ops(text(&build["context"]));
    assert_eq!(
        context.join(text(&build["dockerfile"])),
        context.join("ops/Dockerfile")
    );
    let file = image("build-orders") + &image(text(&build["target"]));
    let (_, example) = file.split_once("--example ").unwrap();
    let example = example.split_whitespace().next().unwrap();
    assert!(root().join(format!("examples/{example}.rs")).exists());
    assert!(file.contains(&format!("target/release/examples/{example} ")));
    let (_, entry) = file.split_once("ENTRYPOINT ").unwrap();
    let entry = YamlLoader::load_from_str(entry).unwrap().remove(0);
    let arguments: Vec<_> = list(&entry).iter().map(text).collect();
    assert_eq!(arguments[0], example);
    let known = fs::read_to_string(root().join("examples/orders/options.rs")).unwrap();
    for option in arguments.iter().filter(|it| it.starts_with("--")) {
        assert!(known.contains(&format!("\"{option}\" =>")), "`{option}`");
    }
    let port = arguments.iter().position(|it| *it == "--port").unwrap() + 1;
    let port = arguments[port].parse().unwrap();
    assert!(ports(&compose["services"]["orders"]).0.contains(&port));
    assert!(file.contains(&format!("EXPOSE {port}\n")));
}

/// Returns the objects of a manifest.
fn manifest(file: &str) -> Vec<Yaml> {
    let objects = YamlLoader::load_from_str(&read(&format!("kubernetes/{file}"))).unwrap();
    for object in &objects {
        let _ = (
            text(&object["apiVersion"]),
            text(&object["metadata"]["name"]),
        );
    }
    objects
}

fn object<'a>(objects: &'a [Yaml], kind: &str) -> &'a Yaml {
    let mut found = objects.iter().filter(|it| text(&it["kind"]) == kind);
    found.next().unwrap_or_else(|| panic!("there is no {kind}"))
}

/// The variables of a container are read by [`Config::from_env`](lock_runtime::Config::from_env).
fn assert_variables_are_known(container: &Yaml) {
    let known = include_str!("../../lock-runtime/src/config/environment.rs");
    let names: Vec<_> = list(&container["env"])
        .iter()
        .map(|variable| text(&variable["name"]))
        .collect();
    assert!(names.contains(&"LOCK_URL"), "{names:?}");
    for name in names {
        assert!(known.contains(&format!("/// | `{name}` |")), "`{name}`");
    }
    let secret = &list(&container["env"])[0]["valueFrom"]["secretKeyRef"];
    assert_eq!(
        (text(&secret["name"]), text(&secret["key"])),
        ("locks", "url")
    );
}

#[test]
fn deployment_probes_its_service_and_lets_it_drain() {
    let service = include_str!("../../examples/axum_orders.rs");
    let objects = manifest("orders.yaml");
    let deployment = &object(&objects, "Deployment")["spec"];
    let labels = &deployment["template"]["metadata"]["labels"];
    assert_eq!(&deployment["selector"]["matchLabels"], labels);
    let pod = &deployment["template"]["spec"];
    let [container] = list(&pod["containers"]) else {
        panic!("one container")
    };
    assert_variables_are_known(container);
    let image = image(text(&container["image"]));

    // Requests and probes reach the port at which the program listens.
    let [port] = list(&container["ports"]) else {
        panic!("one port")
    };
    let number = port["containerPort"].as_i64().unwrap();
    assert!(image.contains(&format!("EXPOSE {number}\n")));
    let balancer = &object(&objects, "Service")["spec"];
    assert_eq!(&balancer["selector"], labels);
    assert_eq!(list(&balancer["ports"])[0]["targetPort"], port["name"]);
    for (probe, handler) in [("readinessProbe", "ready"), ("livenessProbe", "live")] {
        let request = &container[probe]["httpGet"];
        assert_eq!(request["port"], port["name"]);
        let route = format!(".route(\"{}\", get({handler}))", text(&request["path"]));
        assert!(service.contains(&route), "{route}");
    }
    // More than the command timeout of 500 ms.
    assert!(container["readinessProbe"]["timeoutSeconds"].as_i64() >= Some(1));

    // What the program stores is there for all replicas.
    let [mount] = list(&container["volumeMounts"]) else {
        panic!("one volume")
    };
    assert!(image.contains(&format!("VOLUME {}\n", text(&mount["mountPath"]))));
    let volume = &list(&pod["volumes"])[0];
    assert_eq!(volume["name"], mount["name"]);
    let claim = object(&objects, "PersistentVolumeClaim");
    assert_eq!(
        volume["persistentVolumeClaim"]["claimName"],
        claim["metadata"]["name"]
    );

    // SIGTERM comes after the pause; then requests run, bodies may finish, and leases end.
    let pause = list(&container["lifecycle"]["preStop"]["exec"]["command"]);
    let pause: i64 = text(&pause[1]).parse().unwrap();
    let (_, ttl) = service.split_once("ttl = \"").unwrap();
    let ttl: i64 = ttl.split_once("s\"").unwrap().0.parse().unwrap();
    let grace = pod["terminationGracePeriodSeconds"].as_i64().unwrap();
    assert!(grace > pause + 5 + 2 * ttl, "{grace} s");
}

/// The arguments are a case of `args::tests` in `lock-cli`.
#[test]
fn cron_job_runs_the_image_of_locks() {
    let objects = manifest("nightly.yaml");
    let job = &object(&objects, "CronJob")["spec"]["jobTemplate"]["spec"];
    let pod = &job["template"]["spec"];
    let [container] = list(&pod["containers"]) else {
        panic!("one container")
    };
    assert_variables_are_known(container);
    let image = image(text(&container["image"]));
    let program = text(&list(&container["command"])[0]);
    assert!(image.contains(&format!("target/release/{program} /usr/local/bin/")));
    assert!(image.contains(&format!("ENTRYPOINT [\"{program}\"]")));
    let cli = fs::read_to_string(root().join("lock-cli/Cargo.toml")).unwrap();
    assert!(cli.contains(&format!("name = \"{program}\"")));
}
