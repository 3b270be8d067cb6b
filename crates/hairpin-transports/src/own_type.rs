//! Loops that are compiled for each kind of wire.
//!
//! On x86 the kernel overwrites the return stack buffer at a context switch (arch/x86/entry/entry_64.S), so that no return to a
//! function that was called before it is predicted. Each function between a loop and the system call in which it sleeps then costs
//! several nanoseconds a message. A loop that blocks, compiled for the wire's own type, has none but the C library's.

use crate::wire::Wire;

/// What is done over a wire.
pub trait OverWire {
    /// What comes of it.
    type Answer;

    /// Does it.
    fn run<W: Wire + ?Sized>(self, wire: &mut W) -> Self::Answer;
}

/// Does it over the wire as the type that it is, or as `dyn Wire` where a type is not among those that are worth it.
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
