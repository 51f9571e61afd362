// Package resource is what the locks protect: counters in one process, reached
// by others over a Unix socket, that refuse a caller with a fencing token
// below the highest that they have seen. A read carries the token as well: else
// an older holder could still write between a newer one's read and its write.
package resource
