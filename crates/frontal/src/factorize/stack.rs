//! Memory for generated elements: a stack that never moves what lies on it.

use luge_sparse::{OutOfMemory, Reservation, bytes_of, in_large_pages};

/// A stack of arrays in chunks. The first chunk has the predicted size; more are added when delayed
/// pivots make elements larger than predicted.
pub(super) struct Stack<F> {
    /// Uninitialised memory: the lengths stay zero, the capacities count.
    chunks: Vec<Vec<F>>,
    top: Mark,
}

/// A height of a [`Stack`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    chunk: u32,
    used: usize,
}

impl<F> Stack<F> {
    pub fn with_capacity(entries: usize) -> Self {
        Self {
            chunks: vec![in_large_pages(Vec::with_capacity(entries))],
            top: Mark::default(),
        }
    }

    /// The height, to return to with [`release`](Self::release).
    pub fn mark(&self) -> Mark {
        self.top
    }

    /// Uninitialised room for `len` values, aligned like a value. Returns the bytes newly allocated
    /// beside it, which are added to `memory`.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if they cannot be reserved.
    pub fn push(
        &mut self,
        len: usize,
        memory: &mut Reservation,
    ) -> Result<(*mut F, u64), OutOfMemory> {
        let mut bytes = 0;
        let chunk = self.top.chunk as usize;
        if self.chunks[chunk].capacity() - self.top.used < len {
            let next = chunk + 1;
            // Chunks above the top hold nothing.
            if self.chunks.len() > next && self.chunks[next].capacity() < len {
                self.chunks.truncate(next);
            }
            if self.chunks.len() == next {
                let entries = len.max(self.chunks[chunk].capacity() / 2);
                bytes = bytes_of::<F>(entries);
                memory.grow(bytes)?;
                self.chunks
                    .push(in_large_pages(Vec::with_capacity(entries)));
            }
            self.top = Mark {
                chunk: next as u32,
                used: 0,
            };
        }
        let chunk = &mut self.chunks[self.top.chunk as usize];
        // SAFETY: used <= capacity, so the offset lies in the allocation.
        let p = unsafe { chunk.as_mut_ptr().add(self.top.used) };
        self.top.used += len;
        Ok((p, bytes))
    }

    /// Takes everything above `mark` off.
    pub fn release(&mut self, mark: Mark) {
        self.top = mark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_stay_where_they_are_when_the_stack_grows() {
        let mut stack = Stack::<f64>::with_capacity(10);
        let mut memory = Reservation::default();
        let (a, bytes) = stack.push(8, &mut memory).unwrap();
        assert_eq!(bytes, 0);
        // SAFETY: room for eight values.
        unsafe { a.add(7).write(3.0) };
        let mark = stack.mark();
        let (b, bytes) = stack.push(8, &mut memory).unwrap();
        assert_eq!(bytes, 64);
        // SAFETY: room for eight values.
        unsafe { b.add(7).write(4.0) };
        // SAFETY: written above.
        assert_eq!(unsafe { (*a.add(7), *b.add(7)) }, (3.0, 4.0));
        stack.release(mark);
        // The chunk is used again, unless it is too small.
        assert_eq!(stack.push(5, &mut memory).unwrap(), (b, 0));
        stack.release(mark);
        assert_eq!(stack.push(100, &mut memory).unwrap().1, 800);
        stack.release(mark);
        assert_eq!(stack.push(2, &mut memory).unwrap().0, a.wrapping_add(8));
    }
}
