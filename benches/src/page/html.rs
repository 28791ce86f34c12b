//! What the page is made of.

use std::fmt::Display;

use luge_plot::palette::{self, Role};

/// Text as HTML.
pub fn escaped(text: impl Display) -> String {
    let text = text.to_string();
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A cell of a table: words on the left, numbers on the right, and what is good or bad in colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// Words.
    Words(String),
    /// A number, as words.
    Number(String),
    /// A number that is better than the other's.
    Win(String),
    /// A number that is worse than the other's.
    Loss(String),
    /// What must be seen.
    Alarm(String),
}

/// A table with headings; those of number columns stand on the right.
pub fn table(headings: &[String], rows: &[Vec<Cell>]) -> String {
    let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
    for (column, heading) in headings.iter().enumerate() {
        let is_words = |row: &Vec<Cell>| {
            matches!(
                row.get(column),
                Some(Cell::Words(_) | Cell::Alarm(_)) | None
            )
        };
        let class = if rows.iter().all(is_words) {
            ""
        } else {
            " class=\"number\""
        };
        html.push_str(&format!("<th{class}>{}</th>", escaped(heading)));
    }
    html.push_str("</tr></thead><tbody>");
    for row in rows {
        html.push_str("<tr>");
        for cell in row {
            let (class, text) = match cell {
                Cell::Words(text) => ("", text),
                Cell::Number(text) => ("number", text),
                Cell::Win(text) => ("number win", text),
                Cell::Loss(text) => ("number loss", text),
                Cell::Alarm(text) => ("alarm", text),
            };
            html.push_str(&format!("<td class=\"{class}\">{}</td>", escaped(text)));
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    html
}

/// Names with the colours of their series.
pub fn legend(names: impl IntoIterator<Item = (usize, String)>) -> String {
    let mut html = String::from("<p class=\"legend\">");
    for (colour, name) in names {
        let colour = palette::variable(Role::Series(colour));
        html.push_str(&format!(
            "<span><i style=\"background:{colour}\"></i>{}</span> ",
            escaped(name)
        ));
    }
    html.push_str("</p>");
    html
}

/// A picture under a heading, with what explains it.
pub fn figure(title: &str, explanation: &str, legend: &str, svg: &str) -> String {
    format!(
        "<figure><figcaption><b>{}</b> {}</figcaption>{legend}{svg}</figure>",
        escaped(title),
        escaped(explanation)
    )
}

/// The whole page.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n",
        escaped(title),
        palette::style(),
        STYLE
    )
}

const STYLE: &str = "\
:root{color-scheme:light dark}\
*{box-sizing:border-box}\
body{margin:0;background:var(--luge-background);color:var(--luge-ink);\
font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif}\
main{max-width:1200px;margin:0 auto;padding:24px 20px 80px}\
h1{font-size:30px;line-height:1.2;margin:8px 0 12px}\
h2{font-size:24px;margin:56px 0 8px;padding-top:16px;border-top:2px solid var(--luge-grid)}\
h3{font-size:18px;margin:32px 0 6px}\
p{max-width:84ch;margin:8px 0}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:8px 0}\
dt{color:var(--luge-muted)}dd{margin:0;overflow-wrap:anywhere}\
code{font:13px/1.4 ui-monospace,'DejaVu Sans Mono',monospace}code span{white-space:nowrap}\
.scroll{overflow-x:auto;margin:8px 0}\
table{border-collapse:collapse;font-size:14px}\
th,td{padding:4px 12px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--luge-grid)}\
th{color:var(--luge-muted);font-weight:600}\
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
.win{color:var(--luge-series-2);font-weight:600}.loss{color:var(--luge-series-1);font-weight:600}\
.alarm{color:var(--luge-series-1);font-weight:600}\
.muted{color:var(--luge-muted)}\
figure{margin:16px 0}figcaption{max-width:110ch;margin-bottom:4px}\
svg{max-width:100%;height:auto;display:block}\
.legend{margin:2px 0 6px;font-size:14px}.legend span{margin-right:16px;white-space:nowrap}\
.legend i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:6px}\
.pair{display:grid;grid-template-columns:1fr 1fr;gap:0 24px}\
@media(max-width:1000px){.pair{grid-template-columns:1fr}}\
summary{cursor:pointer;font-weight:600;margin:16px 0 8px}\
nav ul{margin:8px 0;padding-left:22px}a{color:var(--luge-series-0)}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_page() {
        let nasty = "<script>\"&";
        let cell = table(&[nasty.to_owned()], &[vec![Cell::Words(nasty.to_owned())]]);
        let page = page(
            nasty,
            &(cell + &legend([(0, nasty.to_owned())]) + &figure(nasty, nasty, "", "")),
        );
        assert!(!page.contains("<script>"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;&quot;&amp;").count(), 6);
    }

    #[test]
    fn a_column_of_numbers_has_its_heading_on_the_right() {
        let html = table(
            &["a".to_owned(), "b".to_owned()],
            &[vec![
                Cell::Words("x".to_owned()),
                Cell::Loss("2".to_owned()),
            ]],
        );
        assert!(
            html.contains("<th>a</th><th class=\"number\">b</th>"),
            "{html}"
        );
    }
}
