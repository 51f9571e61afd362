package run

// limits is what the help says of this system.
const limits = `
Three things are out of reach: a process that this user may not kill, such as one behind
sudo, for which the lock is kept until it ends; what another program, such as Docker's
daemon, runs on the command's behalf; and what the command has started, if kill -9 ends
both this process and its guard, "lockguard", at once.

So a daemon that is to outlive the command has to be started by another program, such as
by systemctl start, systemd-run (without --scope) or at; setsid and nohup do not help.

At a terminal Ctrl-Z does not stop the command. If its input or output is elsewhere, as
in a pipeline, Ctrl-Z stops all of it, and the lock is lost unless fg comes in time; and
SIGINT is taken for Ctrl-C, which the command gets by itself: let kill send SIGTERM.

A signal that the guard gets as well, as when systemd stops a unit, is passed on only
after --grace, since the command has got it, too. KillMode=mixed leaves that to lockbeat.
`
