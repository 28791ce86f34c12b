//! Points in the work of a stream, to wait for and to measure between.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::cuda::EventHandle;
use crate::device::{DeviceBackend, DeviceInner};
use crate::error::DeviceError;

enum Point {
    Cuda(EventHandle),
    /// When it was recorded last.
    Simulator(Mutex<Option<Instant>>),
}

/// A point in the work of a stream.
///
/// Recording it again moves it. Waiting for an event that was never recorded does not wait.
pub struct Event {
    device: Arc<DeviceInner>,
    point: Point,
    recorded: AtomicBool,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("recorded", &self.recorded)
            .finish_non_exhaustive()
    }
}

impl Event {
    pub(crate) fn new(device: &Arc<DeviceInner>) -> Result<Self, DeviceError> {
        Self::of(device, true)
    }

    /// One to wait for, which is recorded and waited for in less time.
    pub(crate) fn untimed(device: &Arc<DeviceInner>) -> Result<Self, DeviceError> {
        Self::of(device, false)
    }

    fn of(device: &Arc<DeviceInner>, is_timed: bool) -> Result<Self, DeviceError> {
        let point = match &device.backend {
            DeviceBackend::Cuda(context) => Point::Cuda(
                context
                    .create_event(is_timed)
                    .map_err(|error| context.error(error, &[]))?,
            ),
            DeviceBackend::Simulator(_) => Point::Simulator(Mutex::new(None)),
        };
        Ok(Self {
            device: device.clone(),
            point,
            recorded: AtomicBool::new(false),
        })
    }

    pub(crate) fn device(&self) -> &Arc<DeviceInner> {
        &self.device
    }

    /// The driver's event; only on CUDA.
    pub(crate) fn handle(&self) -> EventHandle {
        match self.point {
            Point::Cuda(handle) => handle,
            Point::Simulator(_) => unreachable!("an event of a CUDA device"),
        }
    }

    /// Notes that the event was recorded; on the simulator that is the recording.
    pub(crate) fn mark_recorded(&self) {
        if let Point::Simulator(instant) = &self.point {
            *instant.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        self.recorded.store(true, Ordering::Release);
    }

    /// Whether the work before the event is done; true for an event that was never recorded.
    ///
    /// # Errors
    /// [`DeviceError::Asynchronous`] if that work failed, or the driver's.
    pub fn is_complete(&self) -> Result<bool, DeviceError> {
        match (&self.device.backend, &self.point) {
            (DeviceBackend::Cuda(context), &Point::Cuda(handle)) => context
                .is_complete(handle)
                .map_err(|error| context.error(error, &[])),
            _ => Ok(true),
        }
    }

    /// Waits until the work before the event is done.
    ///
    /// # Errors
    /// [`DeviceError::Asynchronous`] if that work failed, or the driver's.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        match (&self.device.backend, &self.point) {
            (DeviceBackend::Cuda(context), &Point::Cuda(handle)) => context
                .synchronize_event(handle)
                .map_err(|error| context.error(error, &[])),
            _ => Ok(()),
        }
    }

    /// Milliseconds of device time from this event to `end`; waits for both.
    ///
    /// # Errors
    /// [`DeviceError::Asynchronous`] if the work before them failed, or the driver's.
    ///
    /// # Panics
    /// If one of them was never recorded, or they are of two devices.
    #[track_caller]
    pub fn elapsed_ms(&self, end: &Self) -> Result<f32, DeviceError> {
        assert!(
            Arc::ptr_eq(&self.device, &end.device),
            "the time between events of two devices"
        );
        assert!(
            self.recorded.load(Ordering::Acquire) && end.recorded.load(Ordering::Acquire),
            "the time between events of which one was never recorded"
        );
        self.synchronize()?;
        end.synchronize()?;
        match (&self.device.backend, &self.point, &end.point) {
            (DeviceBackend::Cuda(context), &Point::Cuda(start), &Point::Cuda(end)) => context
                .elapsed_ms(start, end)
                .map_err(|error| context.error(error, &[])),
            (_, Point::Simulator(start), Point::Simulator(end)) => {
                let read = |point: &Mutex<Option<Instant>>| {
                    *point.lock().unwrap_or_else(PoisonError::into_inner)
                };
                let (start, end) = (read(start), read(end));
                let elapsed = start.zip(end).map(|(start, end)| {
                    if end >= start {
                        (end - start).as_secs_f32()
                    } else {
                        -(start - end).as_secs_f32()
                    }
                });
                Ok(elapsed.unwrap_or(0.0) * 1e3)
            }
            _ => unreachable!("the events are of the device's backend"),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let (DeviceBackend::Cuda(context), &Point::Cuda(handle)) =
            (&self.device.backend, &self.point)
        {
            // Nothing can be reported from here.
            let _ = context.destroy_event(handle);
        }
    }
}
