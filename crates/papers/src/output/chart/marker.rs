//! Markers: shapes that distinguish curves without colour.

use plotters::prelude::*;

use super::{Canvas, Drawn};

/// A shape at each point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Wedge,
    Cross,
}

const ALL: [Marker; 6] = [
    Marker::Circle,
    Marker::Square,
    Marker::Triangle,
    Marker::Diamond,
    Marker::Wedge,
    Marker::Cross,
];

impl Marker {
    /// Returns the marker of a curve, different from those of its neighbours.
    pub(super) fn of(number: usize) -> Marker {
        ALL[number % ALL.len()]
    }

    pub(super) fn draw(
        self,
        canvas: &Canvas,
        (x, y): (i32, i32),
        colour: RGBColor,
        hollow: bool,
    ) -> Drawn {
        let style = if hollow { colour.stroke_width(3) } else { colour.filled() };
        let corners: &[(i32, i32)] = match self {
            Marker::Circle => {
                return canvas.draw(&plotters::element::Circle::new((x, y), 10, style));
            }
            Marker::Square => &[(-9, -9), (9, -9), (9, 9), (-9, 9)],
            Marker::Triangle => &[(0, -12), (11, 8), (-11, 8)],
            Marker::Diamond => &[(0, -13), (11, 0), (0, 13), (-11, 0)],
            Marker::Wedge => &[(0, 12), (11, -8), (-11, -8)],
            Marker::Cross => &[
                (-3, -12),
                (3, -12),
                (3, -3),
                (12, -3),
                (12, 3),
                (3, 3),
                (3, 12),
                (-3, 12),
                (-3, 3),
                (-12, 3),
                (-12, -3),
                (-3, -3),
            ],
        };
        let mut path: Vec<_> = corners.iter().map(|(right, down)| (x + right, y + down)).collect();
        match hollow {
            true => {
                path.push(path[0]);
                canvas.draw(&PathElement::new(path, style))
            }
            false => canvas.draw(&Polygon::new(path, style)),
        }
    }
}
