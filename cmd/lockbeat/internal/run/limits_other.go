//go:build unix && !linux

package run

// limits is what the help says of this system.
const limits = `
On this system the command's process group is all that is known of it: a process that
leaves the group, such as a daemon, is not ended. It is stopped if it asks at the terminal
while its input or output is elsewhere. Linux has no such limits.
`
