// Package idempotent has an HTTP request that is sent again carried out once.
package idempotent
