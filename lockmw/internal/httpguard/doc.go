// Package httpguard has what the guards around HTTP handlers share, those of package httpmw and that
// of package idempotent: bodies that are read before a lock is asked for, at a pace; the request that
// a guard passes on; marks between guards; and reports of a server that is set up wrongly.
package httpguard
