// Package doctor has the command that looks whether a deployment of Redis is
// fit for locks. It looks at one thing after another, and says of each, once it
// knows, what it has found and what to change. What its user has no right to
// look at is no failure: then it says which right is missing. That no lock can
// be granted is one.
package doctor
