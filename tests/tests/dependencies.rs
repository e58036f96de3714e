//! What others wrote and we link, held against `deny.toml`: licences, where it comes from, versions that anything would do for.
//!
//! `cargo deny` reads the same file and can do more (known vulnerabilities), but takes longer to build than everything else here;
//! `.ci/run` calls it where it is installed.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

/// What `deny.toml` says, as far as it is looked at here.
#[derive(Deserialize)]
struct Rules {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Bans {
    wildcards: String,
    allow_wildcard_paths: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    unknown_registry: String,
    unknown_git: String,
}

/// What Cargo says of all packages that the workspace needs on the targets of the rules.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    license: Option<String>,
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

fn rules() -> Result<Rules> {
    let file = root().join("deny.toml");
    toml::from_str(&std::fs::read_to_string(&file)?).context("deny.toml")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests lies in the workspace")
}

fn metadata(rules: &Rules) -> Result<Metadata> {
    let targets = rules.graph.targets.iter();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(targets.flat_map(|target| ["--filter-platform", target]))
        .current_dir(root())
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).context("what cargo metadata prints")
}

/// Does one of the ways in which this package may be used need nothing but allowed licences?
fn is_allowed(license: &str, allowed: &[spdx::Licensee]) -> Result<bool> {
    // Some write `MIT/Apache-2.0`.
    let expression = spdx::Expression::parse_mode(license, spdx::ParseMode::LAX)?;
    Ok(expression.evaluate(|needed| allowed.iter().any(|licence| licence.satisfies(needed))))
}

#[test]
fn licences_are_allowed() -> Result<()> {
    let rules = rules()?;
    let allow = rules.licenses.allow.iter();
    let allowed: Vec<spdx::Licensee> = allow
        .map(|name| spdx::Licensee::parse(name))
        .collect::<Result<_, _>>()?;
    let packages = metadata(&rules)?.packages;
    ensure!(packages.len() > 100, "that cannot be all: {}", packages.len());
    for package in packages {
        let license = package
            .license
            .with_context(|| format!("{} has no licence", package.name))?;
        ensure!(is_allowed(&license, &allowed)?, "{}: {license}", package.name);
    }
    ensure!(!is_allowed("GPL-3.0-only", &allowed)? && !is_allowed("MIT AND GPL-2.0-only", &allowed)?);
    Ok(())
}

#[test]
fn everything_comes_from_the_registry_or_from_here() -> Result<()> {
    let rules = rules()?;
    ensure!(rules.sources.unknown_registry == "deny" && rules.sources.unknown_git == "deny");
    let metadata = metadata(&rules)?;
    for package in metadata.packages {
        let is_ours = metadata.workspace_members.contains(&package.id);
        let is_known = match &package.source {
            Some(source) => source == "registry+https://github.com/rust-lang/crates.io-index",
            None => is_ours,
        };
        ensure!(is_known, "{} comes from {:?}", package.name, package.source);
    }
    Ok(())
}

#[test]
fn versions_are_named() -> Result<()> {
    let rules = rules()?;
    ensure!(rules.bans.wildcards == "deny" && rules.bans.allow_wildcard_paths);
    let metadata = metadata(&rules)?;
    let is_ours = |package: &&Package| metadata.workspace_members.contains(&package.id);
    for package in metadata.packages.iter().filter(is_ours) {
        let any = |dependency: &&Dependency| dependency.req == "*" && dependency.path.is_none();
        let wild = package
            .dependencies
            .iter()
            .find(any)
            .map(|dependency| &dependency.name);
        ensure!(wild.is_none(), "{} takes any version of {wild:?}", package.name);
    }
    Ok(())
}
