use super::program::Program;

const PROGRAMS: [&str; 4] = ["worker", "axum_orders", "actix_orders", "tonic_orders"];

#[test]
fn help_describes_usage() {
    for name in PROGRAMS {
        let help = Program::start(name, &["--help"], None)
            .succeeds()
            .join("\n");
        for part in ["Usage: ", name, "--help", "LOCK_URL"] {
            assert!(help.contains(part), "no `{part}` in:\n{help}");
        }
        let services = ["\n  POST /orders/<id>/ship", "\n  orders.Orders/Ship "];
        let has_requests = services.iter().any(|request| help.contains(request));
        assert_eq!(has_requests, name != "worker", "{help}");
    }
}

#[test]
fn invalid_arguments_are_named() {
    for name in PROGRAMS {
        for (arguments, complaint) in [
            (
                &["--colour"][..],
                format!("`--colour` is not known; see `{name} --help`"),
            ),
            (
                &[],
                "the environment variable `LOCK_URL` is not set".to_owned(),
            ),
        ] {
            let errors = Program::start(name, arguments, None).fails();
            assert!(errors.contains(&complaint), "`{name}`: {errors}");
        }
    }
    for (name, arguments, complaint) in [
        (
            "worker",
            ["--every", "0"],
            "`--every` needs a number of seconds",
        ),
        ("worker", ["--runs", "-1"], "`--runs` needs a whole number"),
        (
            "axum_orders",
            ["--port", "65536"],
            "`--port` needs a number up to 65535",
        ),
        (
            "actix_orders",
            ["--lock", "mongodb://there"],
            "scheme `mongodb://` is not known",
        ),
        (
            "tonic_orders",
            ["--port", "here"],
            "`--port` needs a number up to 65535",
        ),
    ] {
        let errors = Program::start(name, &arguments, None).fails();
        assert!(errors.contains(complaint), "`{name}`: {errors}");
    }
    for name in PROGRAMS {
        let option = if name == "worker" {
            "--runs"
        } else {
            "--database"
        };
        let errors = Program::start(name, &[option], None).fails();
        assert!(
            errors.contains(&format!("`{option}` needs a value")),
            "`{name}`: {errors}"
        );
    }
}
