//! Loops compiled for each kind of wire.
//!
//! On x86 the kernel overwrites the return stack buffer at a context switch (arch/x86/entry/entry_64.S), so returns to
//! functions called before it are mispredicted. Each function between a loop and the system call in which it sleeps
//! then costs several nanoseconds per message. A blocking loop compiled for the wire's own type only has the C
//! library's.

use crate::wire::Wire;

/// A task over a wire.
pub trait OverWire {
    type Answer;

    fn run<W: Wire + ?Sized>(self, wire: &mut W) -> Self::Answer;
}

/// Runs a task over a wire's own type, or over `dyn Wire` for types where that brings nothing.
pub fn over_own_type<T: OverWire>(wire: &mut dyn Wire, what: T) -> T::Answer {
    #[cfg(target_os = "linux")]
    {
        use crate::linux::wires::pipe::PipeWire;
        use crate::linux::wires::socket::SocketWire;

        if let Some(wire) = own::<SocketWire>(wire) {
            return what.run(wire);
        }
        if let Some(wire) = own::<PipeWire>(wire) {
            return what.run(wire);
        }
    }
    what.run(wire)
}

#[cfg(target_os = "linux")]
fn own<W: Wire + 'static>(wire: &mut dyn Wire) -> Option<&mut W> {
    wire.as_any()?.downcast_mut()
}
