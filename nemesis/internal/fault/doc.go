// Package fault breaks a deployment, its links and its clients, one
// fault at a time, and heals them.
//
// A fault says what it voids. Those that make one server forget what it has confirmed void
// exclusion where one server decides: two may believe in a lock until the first one's next
// heartbeat. They void nothing in a quorum that is told to expect it. A fail-over voids it between
// clients that have not been told of the new primary, and for a TTL after that. No fault voids that
// tokens rise, that the fenced resource loses nothing, or that everybody who is awake is told.
package fault
