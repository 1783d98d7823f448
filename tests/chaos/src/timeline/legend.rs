//! The legend of the timeline.

use super::canvas::{Canvas, LEFT, Mark, RIGHT, TROUBLE, WIDTH, color};

const LINE: f64 = 22.0;
/// The approximate width of a letter.
const LETTER: f64 = 6.3;

/// Draws the legend below `top`, and returns its lower end.
pub fn draw(canvas: &mut Canvas, keys: &[u32], top: f64) -> f64 {
    let mut pen = Pen { x: LEFT, y: top };
    for key in keys {
        let color = color(*key);
        let (x, y) = pen.write(canvas, 24.0, &format!("lock {key}"));
        let style = format!(r#"fill="{color}""#);
        bar(canvas, (x, y), 12.0, &style);
        let right = x + 12.0;
        canvas.put(format_args!(
            r#"<path d="M{right:.1} {y:.1}h12" stroke="{color}" stroke-width="1.5" stroke-opacity="0.7"/>"#
        ));
    }
    for mark in canvas.marks.clone() {
        let words = match mark {
            Mark::Lease => "its lease still runs, or its end is not noticed yet",
            Mark::Stopped => "process stopped",
            Mark::Dropped => "runtime dropped",
            Mark::Slept => "its machine has slept",
            Mark::Away => "locks can't be had",
            Mark::Trouble => "trouble for some",
            Mark::Lost => "notices that it has lost it",
            Mark::Refused => "a late write is refused",
            Mark::Twice => "held twice, since a server has forgotten it",
        };
        let at = pen.write(canvas, 20.0, words);
        explain(canvas, mark, at, color(keys.first().copied().unwrap_or(0)));
    }
    pen.y + LINE
}

fn explain(canvas: &mut Canvas, mark: Mark, (x, y): (f64, f64), color: &str) {
    let middle = x + 12.0;
    match mark {
        Mark::Lease => {
            let style = format!(
                r#"fill="{color}" fill-opacity="0.12" stroke="{color}" stroke-dasharray="2.5 2" stroke-width="0.8""#
            );
            bar(canvas, (x, y), 20.0, &style);
        }
        Mark::Stopped => bar(canvas, (x, y), 20.0, r#"fill="url(#stopped)""#),
        Mark::Dropped => canvas.dashes(middle, y - 6.0, 12.0),
        Mark::Slept => canvas.moon(middle - 3.0, y),
        Mark::Away | Mark::Trouble => {
            let opacity = if mark == Mark::Away { 0.85 } else { 0.5 };
            let style = format!(r#"fill="{TROUBLE}" fill-opacity="{opacity}""#);
            bar(canvas, (x, y), 20.0, &style);
        }
        Mark::Lost => canvas.cross(middle, y, 3.6),
        Mark::Refused => canvas.triangle(middle, y, 4.5),
        Mark::Twice => canvas.diamond(middle, y, 5.5),
    }
}

fn bar(canvas: &mut Canvas, (x, y): (f64, f64), width: f64, style: &str) {
    let top = y - 4.0;
    canvas.put(format_args!(
        r#"<rect x="{x:.1}" y="{top:.1}" width="{width}" height="8" rx="1.5" {style}/>"#
    ));
}

struct Pen {
    x: f64,
    y: f64,
}

impl Pen {
    /// Writes `words` after room for a symbol, on the next line if this one is full. Returns the position of
    /// the symbol.
    fn write(&mut self, canvas: &mut Canvas, room: f64, words: &str) -> (f64, f64) {
        let wide = room + 6.0 + words.chars().count() as f64 * LETTER;
        if self.x + wide > WIDTH - RIGHT {
            (self.x, self.y) = (LEFT, self.y + LINE);
        }
        let x = self.x;
        canvas.text(x + room + 6.0, self.y, "", words);
        self.x += wide + 16.0;
        (x, self.y - 4.5)
    }
}
