// Package httpmw runs net/http handlers under a lock that they never name.
package httpmw
