// Package quorum is a renewer.Store over several independent ones.
package quorum
