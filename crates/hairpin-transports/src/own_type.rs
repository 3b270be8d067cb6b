//! Runs loops that are compiled for each type of wire.
//!
//! On x86 the kernel overwrites the return stack buffer at a context switch (arch/x86/entry/entry_64.S), so that the
//! CPU mispredicts the returns of all functions called before. Each function call between a loop and its blocking
//! system call then costs several nanoseconds per message. A loop for the wire's own type inlines these calls.

use crate::wire::Wire;

/// A task that is generic over the type of its wire.
pub trait OverWire {
    type Answer;

    fn run<W: Wire + ?Sized>(self, wire: &mut W) -> Self::Answer;
}

/// Runs a task with the wire's own type, or with `dyn Wire` for types that gain nothing from it.
pub fn over_own_type<T: OverWire>(wire: &mut dyn Wire, task: T) -> T::Answer {
    #[cfg(target_os = "linux")]
    {
        use crate::linux::wires::awaited::{EpolledWire, SpinThenBlockWire, UringWire};
        use crate::linux::wires::pipe::PipeWire;
        use crate::linux::wires::socket::SocketWire;

        macro_rules! run_as {
            ($($own:ty),+) => {
                $(if let Some(wire) = downcast::<$own>(wire) {
                    return task.run(wire);
                })+
            };
        }
        run_as!(SocketWire, PipeWire, EpolledWire, SpinThenBlockWire, UringWire);
    }
    task.run(wire)
}

#[cfg(target_os = "linux")]
fn downcast<W: Wire + 'static>(wire: &mut dyn Wire) -> Option<&mut W> {
    wire.as_any()?.downcast_mut()
}
