//! Linux's timers: `timerfd_create(2)`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// See the contract in `sys`.
pub fn timer() -> io::Result<OwnedFd> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    Ok(timerfd_create(TimerfdClockId::Monotonic, flags)?)
}

/// See the contract in `sys`.
pub fn set_timer(timer: impl AsFd, time: Duration) -> io::Result<()> {
    let spec = |time: Duration| Timespec::try_from(time).map_err(|_| Errno::INVAL);
    // A time of 0 would stop the timer.
    let it_value = spec(time.max(Duration::from_nanos(1)))?;
    let once = Itimerspec { it_interval: spec(Duration::ZERO)?, it_value };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &once)?;
    Ok(())
}
