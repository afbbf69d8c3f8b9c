//! Text in columns.

use std::fmt;

/// Where the text of a column begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnSide {
    Left,
    Right,
}

/// Rows of cells, shown in columns of equal width.
#[derive(Debug)]
pub(super) struct TextTable {
    sides: Vec<ColumnSide>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(super) fn new(head: &[(&str, ColumnSide)]) -> Self {
        let titles = head.iter().map(|(title, _)| title.to_string()).collect();
        Self { sides: head.iter().map(|&(_, side)| side).collect(), rows: vec![titles] }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.sides.len());
        self.rows.push(cells);
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.sides.len()).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, &width), side) in row.iter().zip(&widths).zip(&self.sides) {
                let blanks = " ".repeat(width - cell.chars().count());
                match side {
                    ColumnSide::Left => line.extend([cell.as_str(), &blanks, "  "]),
                    ColumnSide::Right => line.extend([&blanks, cell.as_str(), "  "]),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = TextTable::new(&[("name", ColumnSide::Left), ("n", ColumnSide::Right)]);
        table.row(vec!["é".to_string(), "10".to_string()]);
        assert_eq!(table.to_string(), "name   n\né     10\n");
    }
}
