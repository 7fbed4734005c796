//! Which crate of the workspace may depend on which.
//!
//! A crate boundary is a promise to whoever embeds the library about what they must compile. The
//! table here is that promise; a dependency which is not in it fails.

use super::Problem;
use serde_json::Value;

/// For each crate, what it may depend on within the workspace. A crate that is not listed may
/// depend on all others.
const ALLOWED: [(&str, &[&str]); 6] = [
    ("postrider-core", &[]),
    ("postrider", &["postrider-core"]),
    ("postrider-webhook", &[]),
    ("postrider-embedded", &[]),
    ("postrider-testkit", &["postrider", "postrider-core", "postrider-embedded"]),
    ("xtask", &["postrider-embedded"]),
];

/// What the tests of any listed crate but the first may depend on besides: the kit for tests.
const FOR_TESTS: [&str; 2] = ["postrider-testkit", "postrider-embedded"];

/// Checks the answer of `cargo metadata --no-deps`.
pub(super) fn check(metadata: &Value) -> Vec<Problem> {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let members: Vec<&str> = packages().filter_map(|package| package["name"].as_str()).collect();
    let mut problems = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let on = dependency["name"].as_str().unwrap_or_default();
            let for_tests = dependency["kind"].as_str() == Some("dev");
            if members.contains(&on) && !is_allowed(name, on, for_tests) {
                let path = package["manifest_path"].as_str().unwrap_or(name).to_owned();
                let message = format!("{name} must not depend on {on}: see {}", file!());
                problems.push(Problem { path, line: 0, message });
            }
        }
    }
    problems
}

fn is_allowed(name: &str, on: &str, for_tests: bool) -> bool {
    let Some((_, allowed)) = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name) else {
        return true;
    };
    // The core has no database, so its tests need none.
    let kit = for_tests && name != "postrider-core" && FOR_TESTS.contains(&on);
    allowed.contains(&on) || kit
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A workspace in which `name` depends on `on`, normally (`null`) or for its tests ("dev").
    fn depends(name: &str, on: &str, kind: &Value) -> Vec<String> {
        let metadata = json!({ "packages": [
            { "name": on, "manifest_path": "on/Cargo.toml", "dependencies": [] },
            { "name": name, "manifest_path": "name/Cargo.toml", "dependencies": [
                { "name": on, "kind": kind },
                { "name": "serde", "kind": null },
            ] },
        ] });
        check(&metadata).into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn an_edge_against_the_direction_fails() {
        for (name, on) in [
            ("postrider-core", "postrider"),
            ("postrider", "postrider-embedded"),
            ("postrider", "postrider-server"),
            ("postrider-embedded", "postrider-core"),
            ("postrider-testkit", "postrider-server"),
            ("xtask", "postrider"),
        ] {
            let problems = depends(name, on, &Value::Null);
            assert_eq!(problems.len(), 1, "{name} → {on}");
            assert!(problems[0].starts_with(&format!("{name} must not depend on {on}")));
        }
    }

    #[test]
    fn an_edge_along_the_direction_passes() {
        for (name, on) in [
            ("postrider", "postrider-core"),
            ("postrider-testkit", "postrider-embedded"),
            ("postrider-server", "postrider"),
            ("postrider-server", "postrider-embedded"),
        ] {
            assert!(depends(name, on, &Value::Null).is_empty(), "{name} → {on}");
        }
    }

    #[test]
    fn only_tests_may_depend_on_the_testkit_and_those_of_the_core_may_not() {
        let dev = json!("dev");
        assert!(depends("postrider", "postrider-testkit", &dev).is_empty());
        assert_eq!(depends("postrider", "postrider-testkit", &Value::Null).len(), 1);
        assert_eq!(depends("postrider-core", "postrider-testkit", &dev).len(), 1);
    }
}
