// Package httpguard has what guards around HTTP handlers share: bodies that are read before a lock
// is asked for, at a pace; the request that a guard hands on; and what is told of a server that is
// set up wrongly.
package httpguard
