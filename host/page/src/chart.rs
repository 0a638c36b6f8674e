//! The charts of a page, as SVG text: dots and lines. The label of a dot is a number, because a name does not fit next
//! to it. A table next to the chart has the names. `style.css` sets the color of the text, because the background can
//! be light or dark.

use std::fmt::Display;

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    Cartesian2d, Circle, Color, DrawingArea, DrawingAreaErrorKind, EmptyElement, IntoDrawingArea, LineSeries,
    PathElement, RGBColor, SVGBackend, Text,
};
use plotters::style::{IntoFont, TextStyle};

/// Width and height of a chart in units of its view box. The chart is scaled to the width of the page.
const SIZE: (u32, u32) = (520, 340);
const FONT: (&str, i32) = ("sans-serif", 15);
/// The colors of dots and lines. They are readable on a light and on a dark background.
const COLORS: [RGBColor; 8] = [
    RGBColor(76, 120, 168),
    RGBColor(224, 140, 40),
    RGBColor(46, 140, 80),
    RGBColor(200, 70, 90),
    RGBColor(122, 94, 168),
    RGBColor(20, 140, 150),
    RGBColor(160, 110, 60),
    RGBColor(120, 130, 140),
];
const AXIS: RGBColor = RGBColor(128, 136, 146);

/// One dot with its number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChartDot {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) label: String,
}

/// A line through points, with a number at its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChartLine {
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) label: String,
}

/// The names and ranges of the two axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axes<'a> {
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    pub(crate) x_range: (f64, f64),
    pub(crate) y_range: (f64, f64),
}

/// Draws dots, and a dashed line for each group of controls. Returns `None` if there is nothing to draw.
pub(crate) fn dots(axes: Axes<'_>, dots: &[ChartDot], controls: &[ChartLine]) -> Option<String> {
    if dots.is_empty() {
        return None;
    }
    draw(axes, |chart| {
        for (index, line) in controls.iter().enumerate() {
            draw_dashes(chart, line, color(COLORS.len() - 1 - index))?;
        }
        for (index, dot) in dots.iter().enumerate() {
            let marker = |color: RGBColor| {
                EmptyElement::at((dot.x, dot.y))
                    + Circle::new((0, 0), 6, color.filled())
                    + Text::new(dot.label.clone(), (8, -7), FONT)
            };
            chart.draw_series([marker(color(index))])?;
        }
        Ok(())
    })
}

/// Draws lines with their labels at the ends. Returns `None` if there is nothing to draw.
pub(crate) fn lines(axes: Axes<'_>, lines: &[ChartLine]) -> Option<String> {
    if lines.iter().all(|line| line.points.is_empty()) {
        return None;
    }
    draw(axes, |chart| {
        for (index, line) in lines.iter().enumerate() {
            let color = color(index);
            chart.draw_series(LineSeries::new(line.points.iter().copied(), color.stroke_width(2)))?;
            draw_label(chart, line)?;
        }
        Ok(())
    })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type DrawResult = Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn draw(axes: Axes<'_>, series: impl FnOnce(&mut Chart<'_, '_>) -> DrawResult) -> Option<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    let drawn = draw_axes(&area, axes, series).and_then(|()| area.present());
    drop(area);
    drawn.ok().map(|()| as_inline(&svg))
}

fn draw_axes(
    area: &Area<'_>,
    axes: Axes<'_>,
    series: impl FnOnce(&mut Chart<'_, '_>) -> DrawResult,
) -> DrawResult {
    let (x, y) = (padded(axes.x_range), padded(axes.y_range));
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(48)
        .y_label_area_size(60)
        .build_cartesian_2d(x.0..x.1, y.0..y.1)?;
    let text = TextStyle::from(FONT.into_font());
    chart
        .configure_mesh()
        .max_light_lines(0)
        .bold_line_style(AXIS.mix(0.25))
        .axis_style(AXIS)
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|value| number(*value))
        .y_label_formatter(&|value| number(*value))
        .label_style(text.clone())
        .axis_desc_style(text)
        .draw()?;
    series(&mut chart)
}

fn draw_dashes(chart: &mut Chart<'_, '_>, line: &ChartLine, color: RGBColor) -> DrawResult {
    for pair in line.points.windows(2) {
        let at = |part: f64| {
            let (from, to) = (pair[0], pair[1]);
            (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part)
        };
        let dashes = (0..10).map(|dash| f64::from(dash) / 10.0);
        chart.draw_series(
            dashes.map(|start| PathElement::new([at(start), at(start + 0.05)], color.stroke_width(2))),
        )?;
    }
    draw_label(chart, line)
}

fn draw_label(chart: &mut Chart<'_, '_>, line: &ChartLine) -> DrawResult {
    let Some(end) = line.points.last() else { return Ok(()) };
    // The end of a line can be at the right edge of the chart, so the label is left of the end.
    let width = 8 * i32::try_from(line.label.chars().count()).unwrap_or_default();
    let label = EmptyElement::at(*end) + Text::new(line.label.clone(), (-width - 4, 4), FONT);
    chart.draw_series([label])?;
    Ok(())
}

/// Returns a range that is not empty, because the library cannot draw an empty range.
fn padded((low, high): (f64, f64)) -> (f64, f64) {
    if high > low { (low, high) } else { (low - 1.0, low + 1.0) }
}

fn color(index: usize) -> RGBColor {
    COLORS[index % COLORS.len()]
}

/// Formats a number of an axis with at most one decimal, and with thousands shortened.
fn number(value: f64) -> String {
    let shortened = |part: f64, suffix: &str| format!("{}{suffix}", trimmed(part));
    match value.abs() {
        size if size >= 1_000_000.0 => shortened(value / 1_000_000.0, " M"),
        size if size >= 1_000.0 => shortened(value / 1_000.0, " k"),
        _ => trimmed(value),
    }
}

fn trimmed(value: impl Display) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Removes the XML header, and the fixed size. The view box stays, so that the chart is as wide as the page.
fn as_inline(svg: &str) -> String {
    let start = svg.find("<svg").unwrap_or_default();
    let size = format!("width=\"{}\" height=\"{}\" ", SIZE.0, SIZE.1);
    svg[start..].replacen(&size, "", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: Axes<'_> =
        Axes { x: "tokens saved, %", y: "kept, %", x_range: (0.0, 100.0), y_range: (0.0, 100.0) };

    #[test]
    fn dots_have_their_labels_and_no_fixed_size() {
        let dot = ChartDot { x: 50.0, y: 90.0, label: "<7>".into() };
        let svg = dots(AXES, &[dot], &[]).expect("a chart");
        assert!(svg.starts_with("<svg viewBox=\"0 0 520 340\""), "{}", &svg[..80]);
        assert_eq!((svg.matches("<circle").count(), svg.contains("&lt;7&gt;")), (1, true));
    }

    #[test]
    fn nothing_to_draw_is_no_chart() {
        assert_eq!(dots(AXES, &[], &[]), None);
        assert_eq!(lines(AXES, &[ChartLine { points: Vec::new(), label: "1".into() }]), None);
    }

    #[test]
    fn empty_range_is_drawn() {
        let axes = Axes { x_range: (3.0, 3.0), y_range: (0.0, 0.0), ..AXES };
        assert!(lines(axes, &[ChartLine { points: vec![(3.0, 0.0)], label: "1".into() }]).is_some());
    }

    #[test]
    fn axis_numbers_are_short() {
        let texts = [0.0, 12.5, 999.0, 1_000.0, 45_500.0, 2_000_000.0].map(number);
        assert_eq!(texts, ["0", "12.5", "999", "1 k", "45.5 k", "2 M"]);
    }
}
