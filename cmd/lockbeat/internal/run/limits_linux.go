package run

// limits is what the help says of this system.
const limits = `
Two things are out of reach: a process that this user may not kill, such as one behind
sudo, for which the lock is kept until it ends; and what a daemon, such as Docker's, runs
on the command's behalf.
`
