//! The output: tables, and the targets.

#[derive(Default)]
pub struct Report {
    targets: Vec<Target>,
}

struct Target {
    work: String,
    measured: String,
    aim: String,
    met: bool,
}

impl Report {
    pub fn target(&mut self, work: &str, measured: String, aim: &str, met: bool) {
        println!("=> {work}: {measured} (target {aim}: {})", verdict(met));
        self.targets.push(Target {
            work: work.to_owned(),
            measured,
            aim: aim.to_owned(),
            met,
        });
    }

    pub fn print(&self) {
        let mut table = Table::new("work", &["measured", "target", "met"]);
        for target in &self.targets {
            let cells = [&target.measured, &target.aim, verdict(target.met)];
            table.row(&target.work, cells.map(str::to_owned).into());
        }
        println!("\nALL TARGETS");
        table.print();
    }
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "NOT MET" }
}

pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(corner: &str, columns: &[&str]) -> Table {
        let mut table = Table { rows: Vec::new() };
        table.row(
            corner,
            columns.iter().map(|name| name.to_string()).collect(),
        );
        table
    }

    pub fn row(&mut self, name: &str, cells: Vec<String>) {
        let mut row = vec![name.to_owned()];
        row.extend(cells);
        self.rows.push(row);
    }

    pub fn print(&self) {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        for row in &self.rows {
            let mut line = format!("{:<1$}", row[0], width(0));
            for (column, cell) in row.iter().enumerate().skip(1) {
                line += &format!("  {cell:>0$}", width(column));
            }
            println!("{line}");
        }
    }
}
