//! Lines over two logarithmic axes, as SVG. Every color is readable on white and on black.

use std::fmt::Write;

pub struct Plot {
    pub title: &'static str,
    pub x: &'static str,
    pub y: &'static str,
    pub lines: Vec<Line>,
}

pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub style: Style,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Style {
    /// The lock that the plot is about.
    Ours,
    Peer {
        peer: usize,
        dashed: bool,
    },
    /// The lower bound.
    Floor,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 52.0;
/// The distance between names that would overlap.
const APART: f64 = 16.0;

const INK: &str = "#7d8590";
const PEERS: [&str; 4] = ["#b87503", "#8250df", "#1a7f84", "#bf3989"];

impl Style {
    fn color(self) -> &'static str {
        match self {
            Style::Ours => "#2f81f7",
            Style::Peer { peer, .. } => PEERS[peer % PEERS.len()],
            Style::Floor => INK,
        }
    }

    fn width(self) -> f64 {
        if self == Style::Ours { 3.5 } else { 1.75 }
    }

    fn dashes(self) -> &'static str {
        match self {
            Style::Floor => "2 4",
            Style::Peer { dashed: true, .. } => "7 4",
            _ => "none",
        }
    }
}

/// Maps values to positions, and lists the marked values.
struct Axis {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let share = (value / self.least).ln() / (self.most / self.least).ln();
        self.from + share * (self.to - self.from)
    }
}

impl Plot {
    pub fn draw(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let range = |of: fn(&(f64, f64)) -> f64| {
            let least = points().map(of).fold(f64::MAX, f64::min);
            (least, points().map(of).fold(0.0, f64::max))
        };
        let ((left, right), (low, high)) = (range(|point| point.0), range(|point| point.1));
        let x = Axis {
            least: left,
            most: right,
            from: LEFT,
            to: WIDTH - RIGHT,
        };
        let y = Axis {
            least: low / 1.3,
            most: high * 1.3,
            from: HEIGHT - BOTTOM,
            to: TOP,
        };
        let mut svg = String::new();
        let _ = writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" font-family="system-ui, sans-serif" font-size="13" fill="{INK}" role="img">
<title>{}</title>
<text x="{LEFT}" y="24" font-size="16" font-weight="600">{}</text>
<text x="{LEFT}" y="40" font-size="12">{}</text>
<text x="{}" y="{}" text-anchor="end" font-size="12">{}</text>"#,
            self.title,
            self.title,
            self.y,
            WIDTH - RIGHT,
            HEIGHT - 12.0,
            self.x
        );
        self.grid(&mut svg, &x, &y);
        for line in &self.lines {
            let place = |(a, b): &(f64, f64)| format!("{:.1},{:.1}", x.place(*a), y.place(*b));
            let places: Vec<String> = line.points.iter().map(place).collect();
            let style = line.style;
            let _ = writeln!(
                svg,
                r#"<polyline points="{}" fill="none" stroke="{}" stroke-width="{}" stroke-dasharray="{}" stroke-linejoin="round"/>"#,
                places.join(" "),
                style.color(),
                style.width(),
                style.dashes()
            );
        }
        self.names(&mut svg, &x, &y);
        svg + "</svg>\n"
    }

    fn grid(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let mut step = 10_f64.powf(y.least.log10().floor());
        while step <= y.most {
            for value in [step, 3.0 * step] {
                if value < y.least || value > y.most {
                    continue;
                }
                let (at, right) = (y.place(value), WIDTH - RIGHT);
                let _ = writeln!(
                    svg,
                    r#"<path d="M{LEFT} {at:.1}H{right}" stroke="{INK}" stroke-opacity="0.25"/><text x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
                    LEFT - 8.0,
                    at + 4.0,
                    short(value)
                );
            }
            step *= 10.0;
        }
        let longest = self.lines.iter().max_by_key(|line| line.points.len());
        for (value, _) in longest.map_or(&[][..], |line| &line.points) {
            let at = x.place(*value);
            let _ = writeln!(
                svg,
                r#"<text x="{at:.1}" y="{}" text-anchor="middle">{}</text>"#,
                HEIGHT - BOTTOM + 20.0,
                short(*value)
            );
        }
    }

    /// Writes each name beside the end of its line, or as near as the other names permit.
    fn names(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let end = |line: &Line| {
            line.points
                .last()
                .map(|point| (x.place(point.0), y.place(point.1)))
        };
        let mut names: Vec<_> = self
            .lines
            .iter()
            .filter_map(|line| end(line).map(|(across, down)| (down, across, line)))
            .collect();
        names.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = TOP;
        let overhang = (names.len() as f64 * APART - (HEIGHT - BOTTOM - TOP)).max(0.0);
        free -= overhang;
        let mut downs: Vec<f64> = Vec::new();
        for (down, ..) in &names {
            let down = down.max(free);
            downs.push(down);
            free = down + APART;
        }
        let mut limit = HEIGHT - BOTTOM + 4.0;
        for down in downs.iter_mut().rev() {
            *down = down.min(limit);
            limit = *down - APART;
        }
        for ((end, across, line), down) in names.iter().zip(downs) {
            let (from, to) = (across + 3.0, WIDTH - RIGHT + 14.0);
            let weight = if line.style == Style::Ours { 700 } else { 400 };
            let color = line.style.color();
            let _ = writeln!(
                svg,
                r#"<path d="M{from:.1} {end:.1}L{to:.1} {down:.1}" stroke="{color}" stroke-opacity="0.5"/><text x="{:.1}" y="{:.1}" fill="{color}" font-weight="{weight}">{}</text>"#,
                to + 3.0,
                down + 4.0,
                line.name
            );
        }
    }
}

fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", value / 1e6),
        1e4.. => format!("{} k", value / 1e3),
        _ => format!("{}", (value * 1000.0).round() / 1000.0),
    }
}
