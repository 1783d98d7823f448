//! Tables.

use crate::output::heading;
use crate::text::escaped;

/// Returns a table with a heading; the last column is as wide as it likes.
pub(crate) fn table<const N: usize>(names: [&str; N], rows: Vec<[String; N]>) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| row.each_ref().map(|it| escaped(it)))
        .collect();
    let mut widths = names.map(width);
    for row in &rows {
        for (known, cell) in widths.iter_mut().zip(row) {
            *known = width(cell).max(*known);
        }
    }
    let line = |cells: [&str; N]| {
        let padded = cells.iter().zip(widths);
        let padded = padded.map(|(cell, most)| format!("{cell}{}", " ".repeat(most - width(cell))));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut text = format!("{}\n", heading(&line(names)));
    for row in &rows {
        text += &line(row.each_ref().map(String::as_str));
        text.push('\n');
    }
    text
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_safe() {
        let row = |key: &str, holder: &str| [key.to_owned(), holder.to_owned()];
        let rows = vec![
            row("zażółć", "a"),
            row("\n", ""),
            row("order:42", "b\u{1b}c"),
        ];
        let expected = "KEY       HOLDER\nzażółć    a\n\\n\norder:42  b\\u{1b}c\n";
        assert_eq!(table(["KEY", "HOLDER"], rows), expected);
    }
}
