//! The page with the space-time diagram: one file with style, script and data in it, that opens from disk and asks
//! the network for nothing.

use super::view::View;
use failure::Failure;

const PAGE: &str = include_str!("viewer/page.html");
const STYLE: &str = include_str!("viewer/style.css");
const SCRIPT: &str = include_str!("viewer/viewer.js");

pub fn html(view: &View) -> Result<String, Failure> {
    let data = serde_json::to_string(view)
        .map_err(|e| Failure::internal(format!("cannot encode the trace: {e}")))?;
    // In a script element `</script>` and `<!--` would end or change it, wherever they stand; in JSON, `<` occurs in
    // strings only, where it may be written as an escape.
    let data = data.replace('<', "\\u003c");
    let title = escape_text(&format!("{} · tracefork", view.program));
    // From the last placeholder to the first: what is put in may contain what looks like one, but only behind it.
    Ok(PAGE
        .replacen("{{script}}", SCRIPT, 1)
        .replacen("{{data}}", &data, 1)
        .replacen("{{style}}", STYLE, 1)
        .replacen("{{title}}", &title, 1))
}

fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
