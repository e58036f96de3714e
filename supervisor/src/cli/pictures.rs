//! `check --graph` and `check --tree`: what was explored and what was said, as pictures. The file's name says in which form.

use explore::Choice;
use failure::Failure;
use session::network::{Peers, TreeForm};
use std::path::Path;
use views::Graph;

fn has_extension(path: &Path, wanted: &[&str]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| wanted.iter().any(|one| extension.eq_ignore_ascii_case(one)))
}

/// Writes the state graph: a page if the name says so, otherwise for Graphviz.
pub fn write_graph(path: &Path, graph: &Graph, bad: &[&[Choice]]) -> Result<(), Failure> {
    let content = if has_extension(path, &["html", "htm"]) {
        graph.html(bad)
    } else {
        graph.dot(bad)
    };
    super::show::write(path, content.as_bytes())?;
    if graph.dropped() > 0 {
        tracing::warn!("{} transitions are not in the graph", graph.dropped());
    }
    Ok(())
}

/// Writes the communication trees: a page, for Graphviz, or as text.
pub fn write_trees(path: &Path, peers: &Peers) -> Result<(), Failure> {
    let form = if has_extension(path, &["html", "htm"]) {
        TreeForm::Html
    } else if has_extension(path, &["dot", "gv"]) {
        TreeForm::Dot
    } else {
        TreeForm::Text
    };
    super::show::write(path, peers.trees(form).as_bytes())
}
