// Package httpguard has what the guards of packages httpmw and idempotent
// share: bodies that are read before a lock is asked for; the request that a
// guard passes on; marks between guards; types of problem documents; and
// reports of a server that is set up wrongly.
package httpguard
