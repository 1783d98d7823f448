//! Shapes over a span of time, as SVG. Every color is readable on white and on black.

use std::collections::BTreeSet;
use std::fmt::{Display, Write};

pub const WIDTH: f64 = 960.0;
pub const LEFT: f64 = 92.0;
pub const RIGHT: f64 = 24.0;
pub const INK: &str = "#7d8590";
pub const TROUBLE: &str = "#e5534b";

/// Returns the color of a lock.
pub fn color(key: u32) -> &'static str {
    const COLORS: [&str; 5] = ["#2f81f7", "#c77d0a", "#2a9d6f", "#8f5fe8", "#bf3989"];
    COLORS[key as usize % COLORS.len()]
}

/// The kinds of marks that the legend explains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    Lease,
    Stopped,
    Dropped,
    Slept,
    Away,
    Trouble,
    Lost,
    Refused,
    Twice,
}

pub struct Canvas {
    pub from: u64,
    pub until: u64,
    pub marks: BTreeSet<Mark>,
    svg: String,
}

impl Canvas {
    pub fn new(from: u64, until: u64) -> Self {
        Self {
            from,
            until: until.max(from + 1),
            marks: BTreeSet::new(),
            svg: String::new(),
        }
    }

    /// Returns `true` if the span is visible, and then adds its mark to the legend.
    pub fn mark(&mut self, mark: Mark, (from, until): (u64, u64)) -> bool {
        let shows = self.shows(from, until);
        if shows {
            self.marks.insert(mark);
        }
        shows
    }

    pub fn x(&self, at: u64) -> f64 {
        let at = at.clamp(self.from, self.until) - self.from;
        LEFT + at as f64 / (self.until - self.from) as f64 * (WIDTH - LEFT - RIGHT)
    }

    pub fn shows(&self, from: u64, until: u64) -> bool {
        from <= self.until && self.from <= until
    }

    pub fn put(&mut self, shape: impl Display) {
        let _ = writeln!(self.svg, "{shape}");
    }

    pub fn text(&mut self, x: f64, y: f64, style: &str, text: &str) {
        let text = escaped(text);
        self.put(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}"{style}>{text}</text>"#
        ));
    }

    /// Draws a bar for a span, wide enough to be visible.
    pub fn bar(
        &mut self,
        (from, until): (u64, u64),
        y: f64,
        height: f64,
        style: &str,
        title: &str,
    ) {
        if !self.shows(from, until) {
            return;
        }
        let (left, right) = (self.x(from), self.x(until));
        let width = (right - left).max(1.2);
        let round = (width / 2.0).min(1.5);
        let title = match title {
            "" => String::new(),
            title => format!("<title>{}</title>", escaped(title)),
        };
        self.put(format_args!(
            r#"<rect x="{left:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="{round:.1}" {style}>{title}</rect>"#
        ));
    }

    pub fn thread(&mut self, (from, until): (u64, u64), y: f64, style: &str) {
        if self.shows(from, until) {
            let (left, right) = (self.x(from), self.x(until));
            self.put(format_args!(
                r#"<path d="M{left:.1} {y:.1}H{right:.1}" {style}/>"#
            ));
        }
    }

    pub fn cross(&mut self, x: f64, y: f64, size: f64) {
        let (left, right, top, bottom) = (x - size, x + size, y - size, y + size);
        self.put(format_args!(
            r#"<path d="M{left:.1} {top:.1}L{right:.1} {bottom:.1}M{left:.1} {bottom:.1}L{right:.1} {top:.1}" stroke="{TROUBLE}" stroke-width="2" stroke-linecap="round"/>"#
        ));
    }

    pub fn triangle(&mut self, x: f64, y: f64, size: f64) {
        let (left, right, top, bottom) = (x - size, x + size, y - size, y + size * 0.8);
        self.put(format_args!(
            r#"<path d="M{x:.1} {top:.1}L{right:.1} {bottom:.1}H{left:.1}Z" fill="{TROUBLE}"/>"#
        ));
    }

    pub fn diamond(&mut self, x: f64, y: f64, size: f64) {
        let (left, right, top, bottom) = (x - size, x + size, y - size, y + size);
        self.put(format_args!(
            r#"<path d="M{x:.1} {top:.1}L{right:.1} {y:.1}L{x:.1} {bottom:.1}L{left:.1} {y:.1}Z" fill="none" stroke="{TROUBLE}" stroke-width="1.6"/>"#
        ));
    }

    pub fn dashes(&mut self, x: f64, y: f64, height: f64) {
        self.put(format_args!(
            r#"<path d="M{x:.1} {y:.1}v{height:.1}" stroke="{INK}" stroke-width="2.5" stroke-dasharray="3 2"/>"#
        ));
    }

    pub fn moon(&mut self, x: f64, y: f64) {
        let (top, bottom) = (y - 6.0, y + 6.0);
        self.put(format_args!(
            r#"<path d="M{x:.1} {top:.1}A6 6 0 1 1 {x:.1} {bottom:.1}A7.5 7.5 0 0 0 {x:.1} {top:.1}Z" fill="{INK}"/>"#
        ));
    }

    pub fn finish(self, height: f64, title: &str) -> String {
        let (title, shapes) = (escaped(title), self.svg);
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" width="{WIDTH}" height="{height:.0}" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="12" fill="{INK}" role="img">
<title>{title}</title>
<defs><pattern id="stopped" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V5" stroke="{INK}" stroke-width="2.4" stroke-opacity="0.75"/></pattern></defs>
{shapes}</svg>
"##
        )
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}
