//! Time of the steps of a phase on the device, by events in its stream.

use luge_device::{DeviceError, Event, Stream};

/// Points in a stream between the steps of a phase.
///
/// Recording one takes about a microsecond and waits for nothing, so a phase may always do it.
pub(super) struct Clock<'a> {
    stream: &'a Stream,
    points: Vec<Event>,
}

impl<'a> Clock<'a> {
    /// The first step begins now.
    pub(super) fn start(stream: &'a Stream) -> Result<Self, DeviceError> {
        let mut clock = Self {
            stream,
            points: Vec::new(),
        };
        clock.next()?;
        Ok(clock)
    }

    /// A step ends here, and the next one begins.
    pub(super) fn next(&mut self) -> Result<(), DeviceError> {
        let point = self.stream.device().create_event()?;
        self.stream.record(&point)?;
        self.points.push(point);
        Ok(())
    }

    /// Seconds of each step; waits for the last one.
    pub(super) fn seconds<const STEPS: usize>(&self) -> Result<[f64; STEPS], DeviceError> {
        let mut seconds = [0.0; STEPS];
        for (step, ends) in seconds.iter_mut().zip(self.points.windows(2)) {
            *step = f64::from(ends[0].elapsed_ms(&ends[1])?) / 1e3;
        }
        Ok(seconds)
    }
}
