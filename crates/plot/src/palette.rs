//! The colours of all drawings.
//!
//! Drawings are made with the colours of the light variant, each of which is used for one role only, and then every
//! colour becomes the name of its role. [`style`] gives the names their values.

use plotters::style::RGBColor;

/// What a colour is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Behind everything.
    Background,
    /// Text and axes.
    Ink,
    /// Lines of the grid.
    Grid,
    /// Text that explains.
    Muted,
    /// The data series of that number; they repeat after [`SERIES`].
    Series(usize),
}

/// Number of different colours of series.
pub const SERIES: usize = 8;

/// The light and the dark variant of each role: name, light, dark. The series are those of Okabe and Ito, made for
/// eyes that see colours differently, a little darker on white and lighter on black.
const COLOURS: [(&str, [u8; 3], [u8; 3]); 4 + SERIES] = [
    ("background", [255, 255, 255], [22, 26, 32]),
    ("ink", [27, 31, 36], [225, 229, 234]),
    ("grid", [221, 225, 230], [52, 59, 69]),
    ("muted", [92, 100, 110], [150, 159, 170]),
    ("series-0", [0, 104, 168], [86, 170, 232]),
    ("series-1", [200, 84, 0], [240, 140, 64]),
    ("series-2", [0, 138, 101], [48, 190, 148]),
    ("series-3", [184, 96, 148], [222, 148, 194]),
    ("series-4", [158, 126, 0], [226, 194, 72]),
    ("series-5", [60, 150, 201], [140, 208, 245]),
    ("series-6", [108, 78, 160], [176, 150, 222]),
    ("series-7", [120, 128, 138], [168, 176, 186]),
];

fn index(role: Role) -> usize {
    match role {
        Role::Background => 0,
        Role::Ink => 1,
        Role::Grid => 2,
        Role::Muted => 3,
        Role::Series(number) => 4 + number % SERIES,
    }
}

/// The colour to draw with.
pub fn colour(role: Role) -> RGBColor {
    let [r, g, b] = COLOURS[index(role)].1;
    RGBColor(r, g, b)
}

/// The name of a role's colour in style sheets, as `var(--luge-ink)`.
pub fn variable(role: Role) -> String {
    format!("var(--luge-{})", COLOURS[index(role)].0)
}

fn hexadecimal([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// The colours of a drawing as names.
pub(crate) fn with_names(svg: &str) -> String {
    let mut svg = svg.to_owned();
    for (name, light, _) in COLOURS {
        svg = svg.replace(&hexadecimal(light), &format!("var(--luge-{name})"));
    }
    svg
}

/// A style sheet that gives the names of [`variable`] their values, for light and for dark.
pub fn style() -> String {
    let values = |dark: bool| -> String {
        let of = |(name, on_light, on_dark): &(&str, [u8; 3], [u8; 3])| {
            let value = hexadecimal(if dark { *on_dark } else { *on_light });
            format!("--luge-{name}:{value};")
        };
        COLOURS.iter().map(of).collect()
    };
    format!(
        ":root{{{}}}@media (prefers-color-scheme:dark){{:root{{{}}}}}",
        values(false),
        values(true)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_a_colour_of_its_own() {
        for (i, one) in COLOURS.iter().enumerate() {
            for other in &COLOURS[i + 1..] {
                assert_ne!(one.1, other.1, "{} and {}", one.0, other.0);
            }
        }
        assert_eq!(
            variable(Role::Series(SERIES + 1)),
            variable(Role::Series(1))
        );
    }

    #[test]
    fn text_is_readable_on_its_background() {
        // Contrast as WCAG 2 defines it; 4.5 is asked of text, 3 of graphics.
        let luminance = |colour: [u8; 3]| {
            let linear = colour.map(|c| {
                let c = f64::from(c) / 255.0;
                if c <= 0.04045 {
                    c / 12.92
                } else {
                    ((c + 0.055) / 1.055).powf(2.4)
                }
            });
            0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        };
        let contrast = |a: [u8; 3], b: [u8; 3]| {
            let (a, b) = (luminance(a), luminance(b));
            (a.max(b) + 0.05) / (a.min(b) + 0.05)
        };
        let [(_, light, dark), ..] = COLOURS;
        for (name, on_light, on_dark) in &COLOURS[1..] {
            let least = match *name {
                "grid" => 1.1,
                "ink" | "muted" => 4.5,
                _ => 3.0,
            };
            assert!(contrast(light, *on_light) >= least, "{name} on light");
            assert!(contrast(dark, *on_dark) >= least, "{name} on dark");
        }
    }

    #[test]
    fn colours_become_names() {
        let drawn = format!("<rect fill=\"{}\"/>", hexadecimal(COLOURS[1].1));
        assert_eq!(with_names(&drawn), "<rect fill=\"var(--luge-ink)\"/>");
        assert!(style().contains("--luge-ink:#1B1F24;"));
        assert!(style().contains("prefers-color-scheme:dark"));
    }
}
