//! Figures as scalable SVG: curves with markers over axes, the legend below.
//!
//! The picture contains its colours, so that it can stand alone. The page's style sheet replaces
//! them in dark mode. Curves differ in colour and in marker, and the paper's are thin, dashed and
//! hollow: no distinction depends on colour alone.

mod legend;
mod marker;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(super) use self::legend::name;
use self::marker::Marker;
use super::number::tick;
use super::scale::{Base, Scale};
use crate::results::{Figure, Point, Series};

/// Okabe and Ito's palette, with the faint colours darkened for a white background.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x8A, 0x65),
    RGBColor(0xB5, 0x4F, 0x8B),
    RGBColor(0x96, 0x6A, 0x00),
    RGBColor(0x5B, 0x4F, 0xB8),
    RGBColor(0x5A, 0x5A, 0x5A),
];
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
const GROUND: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);

/// Units of the view box. The page shows a picture at about half of its units.
const WIDTH: i32 = 1100;
const TOP: i32 = 72;
const PLOT_HEIGHT: i32 = 540;
const BELOW: i32 = 116;
const RIGHT: i32 = 36;
const TEXT: i32 = 30;
/// Width of a character by its height: an estimate, as the viewer chooses the font.
const LETTER: f64 = 0.56;

type Canvas<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Returns the picture of a figure, without a fixed size.
pub(crate) fn svg(figure: &Figure) -> String {
    let names: Vec<_> = figure.series.iter().map(legend::name).collect();
    let legend = legend::Legend::of(&names, WIDTH);
    let height = TOP + PLOT_HEIGHT + BELOW + legend.height();
    let mut text = String::new();
    {
        let canvas =
            SVGBackend::with_string(&mut text, (WIDTH as u32, height as u32)).into_drawing_area();
        draw(&canvas, figure, &legend).expect("a string accepts every drawing");
    }
    let head = format!("<svg width=\"{WIDTH}\" height=\"{height}\"");
    text.replacen(&head, "<svg role=\"img\"", 1)
}

fn draw(canvas: &Canvas, figure: &Figure, legend: &legend::Legend) -> Drawn {
    canvas.fill(&GROUND)?;
    let plot = Plot::of(figure);
    plot.axes(canvas, figure)?;
    let looks = looks(&figure.series);
    // The paper's curves first, so that ours lie above them.
    for theirs in [true, false] {
        for (series, look) in figure.series.iter().zip(&looks) {
            if series.theirs == theirs {
                plot.curve(canvas, series, look)?;
            }
        }
    }
    legend.draw(canvas, TOP + PLOT_HEIGHT + BELOW, &looks)?;
    canvas.present()
}

/// Style of a curve.
struct Look {
    colour: RGBColor,
    marker: Marker,
    theirs: bool,
}

impl Look {
    fn line(&self, canvas: &Canvas, points: Vec<(i32, i32)>) -> Drawn {
        match self.theirs {
            true => canvas.draw(&plotters::element::DashedPathElement::new(
                points,
                12,
                9,
                self.colour.stroke_width(3),
            )),
            false => canvas.draw(&PathElement::new(points, self.colour.stroke_width(5))),
        }
    }

    fn mark(&self, canvas: &Canvas, at: (i32, i32)) -> Drawn {
        self.marker.draw(canvas, at, self.colour, self.theirs)
    }
}

/// Returns the style of each curve. The paper's curve takes that of ours whose name it contains.
fn looks(all: &[Series]) -> Vec<Look> {
    let ours: Vec<&str> =
        all.iter().filter(|series| !series.theirs).map(|series| &*series.name).collect();
    let mut next = ours.len();
    let mut own = 0;
    let look = |series: &Series| {
        let place = match series.theirs {
            false => {
                own += 1;
                own - 1
            }
            true => legend::same(&series.name, &ours).unwrap_or_else(|| {
                next += 1;
                next - 1
            }),
        };
        let colour = PALETTE[place % PALETTE.len()];
        Look { colour, marker: Marker::of(place), theirs: series.theirs }
    };
    all.iter().map(look).collect()
}

/// Position of the plot, and its axes.
struct Plot {
    x: Scale,
    y: Scale,
    x_ticks: Vec<f64>,
    left: i32,
}

impl Plot {
    fn of(figure: &Figure) -> Plot {
        let points = || figure.series.iter().flat_map(|series| &series.points);
        let mut xs: Vec<f64> = points().map(|point| point.x).collect();
        let ys: Vec<f64> = points().flat_map(|Point { y, .. }| [y.median, y.min, y.max]).collect();
        let x = Scale::of(&xs, figure.x.log, Base::Values);
        let y = Scale::of(&ys, figure.y.log, Base::Zero);
        xs.retain(|value| x.shows(*value));
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        // Few measured values make better ticks than round numbers between them.
        let x_ticks = if (1..=8).contains(&xs.len()) { xs } else { x.ticks() };
        let widest = y.ticks().iter().map(|value| width(&tick(*value))).max().unwrap_or(0);
        Plot { x, y, x_ticks, left: widest + 32 }
    }

    fn at(&self, x: f64, y: f64) -> (i32, i32) {
        (self.column(x), self.line(y))
    }

    fn column(&self, x: f64) -> i32 {
        self.left + (self.x.place(x) * f64::from(WIDTH - RIGHT - self.left)).round() as i32
    }

    fn line(&self, y: f64) -> i32 {
        TOP + ((1.0 - self.y.place(y)) * f64::from(PLOT_HEIGHT)).round() as i32
    }

    fn axes(&self, canvas: &Canvas, figure: &Figure) -> Drawn {
        let (right, bottom) = (WIDTH - RIGHT, TOP + PLOT_HEIGHT);
        for value in self.y.ticks() {
            let y = self.line(value);
            canvas
                .draw(&PathElement::new(vec![(self.left, y), (right, y)], GRID.stroke_width(2)))?;
            text(canvas, &tick(value), (self.left - 14, y), HPos::Right, VPos::Center)?;
        }
        let mut free = i32::MIN;
        for value in &self.x_ticks {
            let x = self.column(*value);
            let line = vec![(x, bottom), (x, bottom + 10)];
            canvas.draw(&PathElement::new(line, INK.stroke_width(2)))?;
            let half = width(&tick(*value)) / 2 + 8;
            if x - half >= free {
                text(canvas, &tick(*value), (x, bottom + 18), HPos::Center, VPos::Top)?;
                free = x + half;
            }
        }
        let axis = vec![(self.left, bottom), (right, bottom)];
        canvas.draw(&PathElement::new(axis, INK.stroke_width(2)))?;
        let log = |log: bool| if log { " (log)" } else { "" };
        let label = format!("{}{}", figure.y.label, log(figure.y.log));
        text(canvas, &label, (8, 10), HPos::Left, VPos::Top)?;
        let middle = (self.left + right) / 2;
        let label = format!("{}{}", figure.x.label, log(figure.x.log));
        text(canvas, &label, (middle, bottom + 60), HPos::Center, VPos::Top)?;
        if figure.series.iter().all(|series| series.points.is_empty()) {
            let place = (middle, TOP + PLOT_HEIGHT / 2);
            text(canvas, "nothing was measured", place, HPos::Center, VPos::Center)?;
        }
        Ok(())
    }

    fn curve(&self, canvas: &Canvas, series: &Series, look: &Look) -> Drawn {
        let shown: Vec<&Point> = series
            .points
            .iter()
            .filter(|point| self.x.shows(point.x) && self.y.shows(point.y.median))
            .collect();
        for point in &shown {
            self.whisker(canvas, point, look)?;
        }
        let places: Vec<_> = shown.iter().map(|point| self.at(point.x, point.y.median)).collect();
        if places.len() > 1 {
            look.line(canvas, places.clone())?;
        }
        places.into_iter().try_for_each(|place| look.mark(canvas, place))
    }

    /// Plots the range over rounds, where it is longer than a point.
    fn whisker(&self, canvas: &Canvas, point: &Point, look: &Look) -> Drawn {
        let (x, low, high) = (self.column(point.x), self.line(point.y.min), self.line(point.y.max));
        if low - high < 2 {
            return Ok(());
        }
        let lines =
            [[(x, low), (x, high)], [(x - 9, low), (x + 9, low)], [(x - 9, high), (x + 9, high)]];
        lines.into_iter().try_for_each(|line| {
            canvas.draw(&PathElement::new(line, look.colour.mix(0.75).stroke_width(3)))
        })
    }
}

fn text(canvas: &Canvas, text: &str, at: (i32, i32), h_pos: HPos, v_pos: VPos) -> Drawn {
    // The back end divides by 1.24: it takes the size as the height of a line.
    let style = TextStyle::from(("sans-serif", f64::from(TEXT) * 1.24).into_font())
        .color(&INK)
        .pos(Pos::new(h_pos, v_pos));
    canvas.draw(&Text::new(text, at, style))
}

/// Returns the approximate width of a text.
fn width(text: &str) -> i32 {
    (text.chars().count() as f64 * LETTER * f64::from(TEXT)).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// Asserts that tags nest.
    fn assert_well_formed(text: &str) {
        let mut open = vec![];
        for part in text.split('<').skip(1) {
            let (tag, content) = part.split_once('>').expect("tags end");
            assert!(!content.contains('>'), "{part}");
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            match (tag.starts_with('/'), tag.ends_with('/')) {
                (true, _) => assert_eq!(open.pop(), Some(name)),
                (false, true) => {}
                (false, false) => open.push(name),
            }
        }
        assert!(open.is_empty());
    }

    #[test]
    fn figure_is_well_formed_svg_without_a_size() {
        for figure in &sample::small().figures {
            let text = svg(figure);
            assert_well_formed(&text);
            assert!(text.starts_with("<svg role=\"img\" viewBox=\"0 0 1100 "), "{text}");
            assert!(!text.contains("NaN"));
        }
    }

    #[test]
    fn curves_are_in_the_legend_and_points_have_markers() {
        let results = sample::small();
        let figure = &results.figures[0];
        let text = svg(figure);
        for name in ["dudetm", "dudetm, paper", "a &lt;b&gt; &amp; c"] {
            assert!(text.contains(&format!(">\n{name}\n<")), "{name}");
        }
        let ours = figure.series.iter().find(|series| !series.theirs).unwrap();
        // The legend has one marker more.
        let circles = format!("fill=\"#{}\" stroke=\"none\"", "0072B2");
        assert_eq!(text.matches(&circles).count(), ours.points.len() + 1);
    }

    #[test]
    fn figure_without_points_says_so() {
        let results = sample::small();
        let empty = results.figures.iter().find(|figure| figure.series.is_empty()).unwrap();
        assert!(svg(empty).contains("nothing was measured"));
    }

    #[test]
    fn style_sheet_has_every_colour() {
        let css = include_str!("html_page.css");
        for RGBColor(red, green, blue) in PALETTE.into_iter().chain([INK, GRID, GROUND]) {
            let colour = format!("\"#{red:02X}{green:02X}{blue:02X}\"");
            assert!(css.contains(&colour), "{colour}");
        }
    }
}
