//! An SVG picture and what it is drawn on.

use std::fmt;

use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea, SVGBackend};

use crate::palette;

/// What is drawn on.
pub type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// `plotters` refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrawingFailed(pub String);

impl fmt::Display for DrawingFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the drawing failed: {}", self.0)
    }
}

impl std::error::Error for DrawingFailed {}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for DrawingFailed {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawing {
    svg: String,
}

impl Drawing {
    /// Of so many pixels, drawn by `draw`.
    ///
    /// # Errors
    ///
    /// Those of `draw`.
    pub fn new(
        width: u32,
        height: u32,
        draw: impl FnOnce(&Canvas<'_>) -> Result<(), DrawingFailed>,
    ) -> Result<Self, DrawingFailed> {
        let mut svg = String::new();
        {
            let canvas = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
            draw(&canvas)?;
            canvas.present()?;
        }
        Ok(Self {
            svg: palette::with_names(&svg),
        })
    }

    /// For a page that has the style sheet of [`palette::style`]. `label` says what it shows to who cannot see it.
    pub fn inline(&self, label: &str) -> String {
        let label = label
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('"', "&quot;");
        let role = format!("<svg role=\"img\" aria-label=\"{label}\" ");
        self.svg.replacen("<svg ", &role, 1)
    }

    /// As a file of its own.
    pub fn standalone(&self) -> String {
        let style = format!("<style>{}</style>", palette::style());
        let end = self.svg.find('>').map_or(0, |end| end + 1);
        let (head, body) = self.svg.split_at(end);
        format!("{head}{style}{body}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::{Role, colour};

    fn filled() -> Drawing {
        Drawing::new(40, 20, |canvas| Ok(canvas.fill(&colour(Role::Background))?))
            .expect("it is plain")
    }

    #[test]
    fn a_drawing_stands_alone_or_in_a_page() {
        let drawing = filled();
        let alone = drawing.standalone();
        assert!(
            alone.starts_with("<svg ") && alone.contains("<style>:root{"),
            "{alone}"
        );
        assert!(alone.contains("var(--luge-background)"));
        let inline = drawing.inline("a <b> & \"c\"");
        assert!(
            inline.contains("aria-label=\"a &lt;b> &amp; &quot;c&quot;\""),
            "{inline}"
        );
        assert!(!inline.contains("<style>"));
    }
}
